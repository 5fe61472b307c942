DROP TABLE moved_targets;
ALTER TABLE subscriptions DROP COLUMN saved_at;
