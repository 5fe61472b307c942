"""What everything speaks about: alerts, targets, envelopes, outcomes. Pure: no I/O, no clock, no settings."""
