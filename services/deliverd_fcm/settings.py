from typing import Annotated

from pydantic import Field, PlainValidator
from pydantic_settings import NoDecode

from announce.outbound.settings import BaseUrl
from announce.runtime.settings import Settings
from announce.runtime.web import ListenAddress
from deliverd_fcm.service_account import ServiceAccount, read_service_account


class FcmSettings(Settings):
    """What the FCM channel's service is told."""

    fcm_credentials_file: Annotated[ServiceAccount, NoDecode, PlainValidator(read_service_account)] = Field(
        description="Path of the Firebase project's service account key file, JSON as Google's console makes it."
    )
    fcm_base_url: BaseUrl = Field("https://fcm.googleapis.com", description="FCM's address.")
    fcm_timeout_s: float = Field(10.0, gt=0, le=60, description="Seconds that one call to FCM may take.")
    deliverd_fcm_listen: ListenAddress = Field("127.0.0.1:8081", description="host:port of health and metrics.")
