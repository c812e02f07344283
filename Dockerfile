# The service, its workers and the command line.
#   docker build -t superopt .
#   docker build -t superopt:gpu --build-arg RUNTIME=gpu \
#       --build-arg BASE=nvidia/cuda:13.0.1-cudnn-runtime-ubuntu24.04 .
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
ARG RUNTIME=cpu
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
RUN python3 -m venv /opt/superopt
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
# Dependencies are a layer of their own, which changes of the code do not rebuild; one of the two runtimes only.
COPY pyproject.toml constraints.txt ./
RUN python3 -c "import sys, tomllib; \
project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
core = [r for r in project['dependencies'] if sys.argv[1] == 'cpu' or not r.startswith('onnxruntime')]; \
print(*core, *(r for x in sys.argv[1:] for r in project['optional-dependencies'][x]), sep='\n')" \
    "${RUNTIME}" discovery otel page postgres > requirements.txt \
    && /opt/superopt/bin/pip install --constraint constraints.txt --requirement requirements.txt
COPY . .
RUN /opt/superopt/bin/pip install --no-deps .

FROM ${BASE}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 superopt \
    && useradd --uid 10001 --gid superopt --no-create-home --home-dir /var/lib/superopt superopt \
    && install --directory --owner superopt --group superopt --mode 0750 /var/lib/superopt
COPY --from=build /opt/superopt /opt/superopt
ENV PATH=/opt/superopt/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    SUPEROPT_DATABASE_URL=sqlite:////var/lib/superopt/superopt.db \
    SUPEROPT_BLOB_DIRECTORY=/var/lib/superopt/blobs
USER 10001:10001
WORKDIR /var/lib/superopt
VOLUME /var/lib/superopt
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python3", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/livez', timeout=4)"]
ENTRYPOINT ["superopt"]
CMD ["serve", "--host", "0.0.0.0"]
