FROM python:3.13-slim AS build
WORKDIR /src
COPY . .
RUN pip wheel --no-cache-dir --wheel-dir /wheels . ./plugins/cronpad ./plugins/cronpad-command ./plugins/cronpad-sql

FROM python:3.13-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels cronpad tzdata \
    && useradd --uid 10001 --user-group --home-dir /var/lib/cronpad --create-home --shell /usr/sbin/nologin cronpad \
    && mkdir /etc/cronpad
ENV CRONPAD_STATE=/var/lib/cronpad PYTHONUNBUFFERED=1
USER cronpad
WORKDIR /var/lib/cronpad
VOLUME /var/lib/cronpad
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --start-period=20s CMD cronpad health || exit 1
ENTRYPOINT ["cronpad"]
CMD ["run", "/etc/cronpad/jobs.json"]
