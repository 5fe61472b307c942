"""Services as tests run them: real processes, waited for by what they say of themselves."""

import asyncio
import os
import re
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from signal import SIGKILL, SIGTERM

import aiohttp

from announce_stack import ports

READY_WITHIN_S = 20.0
ENDED_WITHIN_S = 45.0


@dataclass(frozen=True, slots=True)
class Program:
    """A running service."""

    process: Process
    url: str
    log: Path

    async def get(self, path: str) -> tuple[int, str]:
        async with aiohttp.ClientSession() as session, session.get(self.url + path) as response:
            return response.status, await response.text()

    async def metric(self, name: str, **labels: str) -> float:
        """Sum the samples of a metric that have these labels."""
        _, text = await self.get("/metrics")
        total = 0.0
        for found, given, value in re.findall(rf"^({name})(?:{{(.*)}})? (\S+)$", text, re.MULTILINE):
            del found
            if labels.items() <= dict(re.findall(r'(\w+)="([^"]*)"', given)).items():
                total += float(value)
        return total

    async def readiness(self, expected: int) -> str:
        """Wait until /readyz answers with this status; return what it says."""
        async with asyncio.timeout(READY_WITHIN_S):
            while True:
                assert self.process.returncode is None, self.log.read_text()
                with suppress(aiohttp.ClientError):
                    status, text = await self.get("/readyz")
                    if status == expected:
                        return text
                await asyncio.sleep(0.02)

    async def terminate(self) -> int:
        """Ask it to stop; return its exit status."""
        self.process.send_signal(SIGTERM)
        async with asyncio.timeout(ENDED_WITHIN_S):
            return await self.process.wait()

    async def kill(self) -> None:
        """End it as a crash would."""
        self.process.send_signal(SIGKILL)
        await self.process.wait()


@asynccontextmanager
async def running(
    module: str, folder: Path, settings: Mapping[str, str], *, ready: bool = True
) -> AsyncIterator[Program]:
    """Run `python -m module` for the length of the block."""
    address = f"127.0.0.1:{ports.choose([])}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("BA_")}
    environment |= {f"BA_{module.upper()}_LISTEN": address, **settings}
    log = folder / f"{module}-{address.rpartition(':')[2]}.log"
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", module, env=environment, stdout=output, stderr=output
        )
    program = Program(process, f"http://{address}", log)
    try:
        if ready:
            await program.readiness(200)
        yield program
    finally:
        if process.returncode is None:
            await program.kill()
