# syntax=docker/dockerfile:1
# The agent of an edge device: `docker build --file deploy/containers/edge-agent.Dockerfile --tag tunefarm-edge-agent .`
#
# Programs that run models mount the same volume at /var/lib/tunefarm-edge.

ARG PYTHON_IMAGE=python:3.11-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
RUN python -m venv /opt/tunefarm
WORKDIR /source
COPY constraints.txt LICENSE ./
RUN /opt/tunefarm/bin/pip install --constraint constraints.txt setuptools
COPY schemas schemas
COPY deploy/edge/agent deploy/edge/agent
RUN /opt/tunefarm/bin/pip install --constraint constraints.txt --no-build-isolation ./schemas ./deploy/edge/agent \
    && /opt/tunefarm/bin/pip uninstall --yes setuptools pip

FROM ${PYTHON_IMAGE} AS agent
RUN groupadd --gid 10001 tunefarm \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /var/lib/tunefarm-edge --shell /usr/sbin/nologin tunefarm \
    && install --directory --owner 10001 --group 10001 --mode 0755 /var/lib/tunefarm-edge
COPY --from=build /opt/tunefarm /opt/tunefarm
ENV PATH=/opt/tunefarm/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 10001:10001
VOLUME /var/lib/tunefarm-edge
ENTRYPOINT ["tunefarm-agent"]
CMD ["serve"]
