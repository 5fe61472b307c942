"""The one delivery pipeline: decode, check, send, classify, decide, record, settle. Channels plug in."""
