DROP TABLE deliveries_dlq;
