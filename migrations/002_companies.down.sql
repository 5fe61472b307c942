DROP TABLE subscriptions;
DROP TABLE ingest_keys;
DROP TABLE companies;
DROP FUNCTION notify_keyring();
