# One image for every service: which one a container runs is its command (`ingestd`, `deliverd_fcm`, …).
# The target `demo` adds the fakes and the program that makes the demo company; production images hold neither.

FROM python:3.13-slim-trixie AS packages

RUN python -m venv /venv
COPY locks/service.txt /locks/service.txt
RUN /venv/bin/pip install --no-cache-dir --no-deps --require-hashes --only-binary :all: -r /locks/service.txt


FROM python:3.13-slim-trixie AS base

ENV PATH=/venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONPATH=/app/libs:/app/services \
    PYTHONSAFEPATH=1 \
    PYTHONUNBUFFERED=1

# A volume that is mounted on /credentials for the first time takes over its owner.
RUN useradd --system --no-create-home --uid 10001 announce \
    && install --directory --owner announce /credentials
COPY --from=packages /venv /venv
COPY migrations /app/migrations
COPY libs/announce /app/libs/announce
COPY services /app/services

USER announce
WORKDIR /app
EXPOSE 8080

# In a container every service listens on 8080. A proxy that Docker hands to containers has no say here.
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "from urllib import request as r; r.build_opener(r.ProxyHandler({})).open('http://127.0.0.1:8080/healthz', timeout=3)"]

ENTRYPOINT ["python", "-m"]
CMD ["ingestd"]


FROM base AS demo

COPY libs/announce_fakes /app/libs/announce_fakes
COPY libs/announce_stack /app/libs/announce_stack


FROM base AS service
