"""The operators' service: JSON API and pages."""
