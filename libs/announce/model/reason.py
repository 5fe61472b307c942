"""Why something wasn't delivered. The row, the metric's label and the page all show this one enum."""

from enum import StrEnum


class Reason(StrEnum):
    """A closed set: add a member here before you use a new one anywhere."""

    # The provider couldn't be asked, or gave no answer that could be used.
    TIMEOUT = "timeout"
    CONNECTION_FAILED = "connection_failed"
    UNEXPECTED_REPLY = "unexpected_reply"

    # The provider asks us to come back.
    RATE_LIMITED = "rate_limited"
    PROVIDER_ERROR = "provider_error"

    # The provider will never take this one.
    INVALID_REQUEST = "invalid_request"
    TARGET_GONE = "target_gone"
    TARGET_MOVED = "target_moved"
    SENDER_MISMATCH = "sender_mismatch"
    REJECTED = "rejected"

    # Our own set-up is at fault, whatever the message.
    CREDENTIALS = "credentials"
    MISCONFIGURED = "misconfigured"

    # It never came to an attempt.
    EXPIRED = "expired"
    UNDECODABLE = "undecodable"
    UNSTORABLE = "unstorable"
    MAX_DELIVERIES = "max_deliveries"

    # Refused at the door for NATS producers, who get no answer.
    INVALID_SUBJECT = "invalid_subject"
    UNKNOWN_COMPANY = "unknown_company"
    NOT_JSON = "not_json"
    INVALID_ALERT = "invalid_alert"
    FOREIGN_COMPANY = "foreign_company"
    ALERT_ID_REUSED = "alert_id_reused"
    TOO_LARGE = "too_large"
