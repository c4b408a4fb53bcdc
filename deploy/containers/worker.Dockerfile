# syntax=docker/dockerfile:1
# A measuring host's worker: `docker build --file deploy/containers/worker.Dockerfile --tag tunefarm-worker .`
#
# It has no database driver, and connects only to the broker and the blob store. The C++ compiler links exported
# libraries; candidates are compiled in memory.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tunefarm
WORKDIR /source
COPY constraints.txt LICENSE ./
RUN /opt/tunefarm/bin/pip install --constraint constraints.txt setuptools
COPY schemas schemas
COPY sandbox sandbox
COPY search search
COPY services services
COPY workers workers
COPY client client
RUN /opt/tunefarm/bin/pip install --constraint constraints.txt --no-build-isolation \
        ./schemas ./sandbox './search[cpu]' ./workers './services[tracing]' './client[worker]' \
    && /opt/tunefarm/bin/pip uninstall --yes setuptools pip \
    && find /opt/tunefarm -depth -type d \( -name tests -o -name test \) -path '*site-packages/scipy*' -exec rm -rf {} + \
    && find /opt/tunefarm -depth -type d \( -name tests -o -name test \) -path '*site-packages/numpy*' -exec rm -rf {} +

FROM ${PYTHON_IMAGE} AS worker
RUN apt-get update \
    && apt-get install --yes --no-install-recommends g++ libgomp1 libseccomp2 tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 tunefarm \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/tunefarm --shell /usr/sbin/nologin tunefarm \
    && install --directory --owner 10001 --group 10001 --mode 0700 /var/lib/tunefarm /srv/blobs
COPY --from=build /opt/tunefarm /opt/tunefarm
COPY deploy/containers/probe.py /opt/tunefarm/bin/probe
ENV PATH=/opt/tunefarm/bin:$PATH PYTHONDONTWRITEBYTECODE=1 TUNEFARM_HOME=/var/lib/tunefarm
USER 10001:10001
WORKDIR /var/lib/tunefarm
ENTRYPOINT ["tini", "--", "tunefarm"]
CMD ["worker", "start"]
