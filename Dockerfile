# firstsight serve on a CPU, as a user without rights. The model is mounted at /model, what people confirm goes to /kept.
#   docker build -t firstsight . && docker run --rm -p 127.0.0.1:8000:8000 -e FIRSTSIGHT_TOKEN -v ./model:/model firstsight
FROM python:3.12-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# PyTorch's own index has the build for CPUs; the usual one brings gigabytes for GPUs.
RUN python -m venv /venv && /venv/bin/pip install --no-cache-dir --extra-index-url https://download.pytorch.org/whl/cpu \
    ".[images,heic,text,serve]"

FROM python:3.12-slim
COPY --from=build /venv /venv
RUN useradd --uid 10001 --create-home --shell /usr/sbin/nologin firstsight \
    && mkdir /model /kept /cache && chown firstsight /model /kept /cache
USER firstsight
ENV PATH=/venv/bin:$PATH FIRSTSIGHT_CACHE=/cache HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/ready', timeout=4)"]
ENTRYPOINT ["firstsight", "serve", "--host", "0.0.0.0"]
CMD ["/model"]
