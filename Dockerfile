# firstsight serve on a CPU, as a user without rights. A model folder is replaced as a whole when a class is taught, so its
# parent is mounted, writable for user 10001:
#   docker build -t firstsight .
#   docker run --rm -p 127.0.0.1:8000:8000 -e FIRSTSIGHT_TOKEN -v ./data:/data firstsight
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
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
ENTRYPOINT ["firstsight", "serve", "--host", "0.0.0.0"]
CMD ["/data/model"]
