import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--alerts", type=int, default=2000, help="how many alerts the kill tests send (default: %(default)s)"
    )
