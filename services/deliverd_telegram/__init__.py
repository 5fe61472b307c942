"""Delivers over the Telegram Bot API."""
