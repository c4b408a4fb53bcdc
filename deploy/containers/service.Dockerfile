# syntax=docker/dockerfile:1
# The API and the tuner: `docker build --file deploy/containers/service.Dockerfile --tag tunefarm-service .`
#
# Both roles share an image, because both run TVM in a child process: the API's intake child reads modules, the
# tuner's search child samples schedules. The processes that use HTTP and SQL never load TVM.

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
        ./schemas ./sandbox './search[cpu]' ./workers './services[api,broker,postgresql,tracing]' './client[server]' \
    && /opt/tunefarm/bin/pip uninstall --yes setuptools pip \
    && find /opt/tunefarm -depth -type d \( -name tests -o -name test \) -path '*site-packages/scipy*' -exec rm -rf {} + \
    && find /opt/tunefarm -depth -type d \( -name tests -o -name test \) -path '*site-packages/numpy*' -exec rm -rf {} +

FROM ${PYTHON_IMAGE} AS service
# `tunefarm db` calls pg_dump and pg_restore, which reject a newer server. Debian packages only one version;
# postgresql-common configures PostgreSQL's own repository, which has all versions.
ARG POSTGRESQL_MAJOR=17
# XGBoost needs libgomp.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates libgomp1 libseccomp2 postgresql-common tini \
    && /usr/share/postgresql-common/pgdg/apt.postgresql.org.sh -y \
    && apt-get install --yes --no-install-recommends "postgresql-client-${POSTGRESQL_MAJOR}" \
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
CMD ["--help"]
