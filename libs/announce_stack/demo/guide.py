"""Where to look while the stack is up, and how to send an alert of one's own."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from shlex import quote

from announce_stack import layout, postgres
from announce_stack.demo.console import Console, Style
from announce_stack.report import silent

CURL = """\
body='{{"title":"My first alert","targets":[{{"channel":"fcm","token":"my-phone"}}]}}'
now=$(date +%s)
mac=$(printf '%s.POST./v1/alerts.%s' "$now" "$body" |
  openssl dgst -sha256 -r -hmac {secret} | cut -d' ' -f1)
curl -sS -w '\\n' {ingestd}/v1/alerts -d "$body" -H "X-BA-Timestamp: $now" \\
  -H 'X-BA-Key-Id: {key_id}' -H "X-BA-Signature: v1=$mac"
curl -sS -w '\\n' '{fcm}/received?target=my-phone&wait_for=1'"""

NATS = """\
{python} - <<'END'
import asyncio, nats

async def main():
    producer = await nats.connect(
        "{producer}")
    alert = b'{{"title":"Mine, by NATS","targets":[{{"channel":"telegram","chat_id":5}}]}}'
    print(await producer.jetstream().publish("ba.alerts.{company}", alert))
    await producer.close()

asyncio.run(main())
END
curl -sS -w '\\n' '{telegram}/received?target=5&wait_for=1'"""

SQL = """\
{psql} \\
  {dsn} \\
  -c 'SELECT created_at, alert_id, target, attempts, status, reason
      FROM deliveries ORDER BY created_at DESC LIMIT 20'"""


def show(folder: Path, environment: Mapping[str, str], console: Console) -> None:
    """Shows addresses, commands and snippets that can be pasted into bash as they stand."""
    console.heading("Where to look")
    places = dict(_places(folder, environment))
    size = max(map(len, places))
    for name, where in places.items():
        console.line(f"  {console.paint(f'{name:{size}}', Style.DIM)}  {where}")
    console.heading("What else to try, in another terminal")
    for command, does in _commands(folder):
        console.line(f"{command}{console.paint(does, Style.DIM)}")
    snippets = {
        "What the database says": SQL.format(psql=_psql(), dsn=quote(environment["BA_PG_DSN"])),
        "An alert of your own, signed, over HTTP (paste it into bash)": _curl(environment),
        "And one over NATS": _nats(environment),
    }
    for title, snippet in snippets.items():
        console.heading(title)
        console.line(snippet)


def _places(folder: Path, environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    yield "ingestd", f"{environment['BA_INGESTD_URL']}/v1/alerts"
    yield "admind", f"{environment['BA_ADMIND_URL']}/v1/ping"
    for provider, variable in (("FCM", "FCM"), ("Telegram", "TELEGRAM"), ("webhooks", "WEBHOOK")):
        yield f"fake {provider}", f"{environment[f'BA_FAKE_{variable}_URL']}/received"
    for variable, url in environment.items():
        if variable.endswith("_METRICS_URL"):
            service = variable.removeprefix("BA_").removesuffix("_METRICS_URL").lower()
            yield f"{service} metrics", url
    yield "logs", f"{folder}/logs"


def _commands(folder: Path) -> Iterator[tuple[str, str]]:
    yield f"cd {quote(str(layout.REPOSITORY))}", ""
    where = f"--dir {shown(folder, layout.REPOSITORY)}"
    for command, does in (
        ("status", "what runs, and where"),
        ("env", "every address and secret"),
        ("logs deliverd_fcm", "a line for each attempt"),
        ("kill nats", "SIGKILL: nothing accepted is lost"),
        ("start nats", "and it goes on"),
    ):
        yield f"scripts/stack {command} {where}", f"  # {does}"


def _curl(environment: Mapping[str, str]) -> str:
    return CURL.format(
        secret=quote(environment["BA_DEMO_SECRET"]),
        key_id=environment["BA_DEMO_KEY_ID"],
        ingestd=environment["BA_INGESTD_URL"],
        fcm=environment["BA_FAKE_FCM_URL"],
    )


def _nats(environment: Mapping[str, str]) -> str:
    return NATS.format(
        python=quote(str(layout.venv_program("python"))),
        producer=environment["BA_NATS_PRODUCER_URL"],
        company=environment["BA_DEMO_COMPANY"],
        telegram=environment["BA_FAKE_TELEGRAM_URL"],
    )


def _psql() -> str:
    """The client that came with the server, since the machine may have none."""
    client = postgres.find_programs(silent) / "psql"
    return quote(str(client)) if client.is_file() else "psql"


def shown(path: Path, start: Path) -> str:
    """A path as one would type it in the folder `start`, and quoted for a shell."""
    return quote(str(path.relative_to(start) if path.is_relative_to(start) else path))
