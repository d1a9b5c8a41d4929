# Longtail with its commands, Dagster's webserver, daemon and code servers. For the processor:
#     docker build -t longtail .
# For GPUs of NVIDIA:
#     docker build -t longtail:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
FROM python:3.11-slim-bookworm

ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=platform,faiss-cpu,gguf,postgres,ray,s3

ENV DAGSTER_DISABLE_TELEMETRY=1 \
    DBT_SEND_ANONYMOUS_USAGE_STATS=false \
    DO_NOT_TRACK=1 \
    LONGTAIL_HOME=/data \
    PATH=/opt/longtail/.venv/bin:$PATH \
    PYTHONUNBUFFERED=1

WORKDIR /opt/longtail
COPY pyproject.toml setup.py constraints.txt README.md LICENSE ./
COPY dagster_project dagster_project
COPY longtail longtail
RUN python -m venv .venv \
    && pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c constraints.txt -e ".[$EXTRAS]"
COPY . .

RUN useradd --create-home --uid 10001 longtail && mkdir /data && chown longtail /data
USER longtail

# dbt parses the project for the default study here, not in each new container; a new volume begins with these files
RUN python -c 'from dagster_project.definitions import defs; defs()' && cp -a /data /home/longtail/parsed

VOLUME /data
# no ENTRYPOINT: Kubernetes' chart and launcher give `dagster …` as arguments
CMD ["longtail", "run"]
