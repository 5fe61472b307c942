"""TimescaleDB: one module a table or family of tables, SQL in sql/. Nothing else imports asyncpg."""
