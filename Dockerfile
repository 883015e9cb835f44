# The command line in a container: docker build --tag leastnoise .
# docker run --rm --user "$(id -u):$(id -g)" --volume "$PWD:/data" leastnoise plan survey.yaml
FROM python:3.12-slim
WORKDIR /opt/leastnoise
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN python -m pip install --no-cache-dir .
RUN leastnoise --version
WORKDIR /data
USER 65534:65534
ENTRYPOINT ["leastnoise"]
CMD ["--help"]
