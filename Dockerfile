# A small image with brokermark as its entry point:
#   docker build --tag brokermark .
#   docker run --rm --network host --volume "$PWD:/work" brokermark run kafka://127.0.0.1:9092 --rate 10k/s --for 30s
FROM rust:1-bookworm AS build
WORKDIR /source
COPY . .
# perl, gcc, g++ and make are in the image: librdkafka and OpenSSL are compiled and linked in.
RUN cargo build --locked --profile dist --features kafka-tls

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home brokermark \
    && install --directory --owner brokermark /work
COPY --from=build /source/target/dist/brokermark /usr/local/bin/brokermark
# By its number: Kubernetes takes no name for proof that it is not root.
USER 10001
WORKDIR /work
ENTRYPOINT ["brokermark"]
CMD ["--help"]
