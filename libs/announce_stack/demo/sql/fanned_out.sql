SELECT alert_id, deliveries
FROM alerts
WHERE company_id = $1
  AND alert_id = ANY ($2::text[])
  AND fanned_out_at IS NOT NULL
