-- What failed for good is in deliveries_dlq; the rows of its tries say nothing of its end.
SELECT alert_id, delivery_id, channel, target, status, attempts, reason
FROM deliveries
WHERE company_id = $1
  AND alert_id = ANY ($2::text[])
  AND status IN ('sent', 'expired')
UNION ALL
-- An alert that ingest refused has its id, if it has one, in what was published only.
SELECT coalesce(alert_id, payload ->> 'alert_id'), delivery_id, channel, target, 'dead letter', attempts, reason
FROM deliveries_dlq
WHERE company_id = $1
  AND coalesce(alert_id, payload ->> 'alert_id') = ANY ($2::text[])
