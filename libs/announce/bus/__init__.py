"""NATS JetStream: the connection, the streams, publishing, consuming. Nothing else imports nats."""
