"""Delivers over FCM HTTP v1."""
