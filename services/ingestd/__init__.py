"""Takes alerts in over HTTP and NATS, once each, and fans them out to their recipients."""
