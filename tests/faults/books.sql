-- Every outcome that any delivery has: a delivery with two is counted twice. $1 are the deliveries that were accepted.
SELECT
    cardinality($1::uuid[]) AS accepted,
    count(*) FILTER (WHERE status = 'sent') AS sent,
    count(*) FILTER (WHERE status = 'failed') AS failed,
    count(*) FILTER (WHERE status = 'expired') AS expired,
    count(DISTINCT delivery_id) FILTER (WHERE delivery_id = ANY ($1)) AS accounted_for
FROM (
    SELECT delivery_id, status FROM deliveries WHERE status IN ('sent', 'expired')
    UNION ALL
    SELECT delivery_id, 'failed' FROM deliveries_dlq WHERE delivery_id IS NOT NULL
) AS outcomes
