-- Whatever a provider said of an address before this is about what the subscription was before.
ALTER TABLE subscriptions ADD COLUMN saved_at timestamptz NOT NULL DEFAULT now();

-- Where each target went that its provider says has become another one. A step may lead to the next one.
CREATE TABLE moved_targets (
    channel     text        NOT NULL,
    address     text        NOT NULL,
    new_address text        NOT NULL CHECK (new_address <> address),
    moved_at    timestamptz NOT NULL,
    PRIMARY KEY (channel, address)
);
