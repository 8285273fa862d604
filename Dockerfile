# firstsight serve on a CPU, as a user without rights. Without arguments it serves the demo of letters, which needs nothing:
#   docker build -t firstsight .
#   docker run --rm -p 127.0.0.1:8000:8000 -e FIRSTSIGHT_TOKEN firstsight
# A model of your own is mounted with its backbone, because the container downloads nothing. A model folder is replaced as a
# whole when a class is taught, so its parent is mounted, writable for user 10001 (docs/service.md has every step):
#   docker run --rm -p 127.0.0.1:8000:8000 -e FIRSTSIGHT_TOKEN -v ./data:/data firstsight /data/model --backbone /data/backbone
FROM python:3.12-slim AS build
# PyTorch's index for CPUs, given here (--build-arg), saves gigabytes of packages for GPUs.
ARG PIP_EXTRA_INDEX_URL
WORKDIR /src
COPY pyproject.toml README.md LICENSE THIRD_PARTY.md ./
COPY src ./src
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir ".[images,heic,text,serve]"

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin firstsight \
    && mkdir /data /cache && chown firstsight /data /cache
USER firstsight
ENV PATH=/venv/bin:$PATH FIRSTSIGHT_CACHE=/cache HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
STOPSIGNAL SIGTERM
# It fails until the model is loaded, and prints what /ready says, which `docker inspect` shows.
HEALTHCHECK --interval=30s --timeout=5s --start-period=120s \
    CMD ["python", "-c", "import http.client, sys; line = http.client.HTTPConnection('127.0.0.1:8000', timeout=4); line.request('GET', '/ready'); answer = line.getresponse(); print(answer.read().decode()); sys.exit(answer.status != 200)"]
ENTRYPOINT ["firstsight", "serve", "--host", "0.0.0.0"]
CMD ["--demo"]
