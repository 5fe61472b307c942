DROP TABLE alert_dedupe;
DROP TABLE alerts;
