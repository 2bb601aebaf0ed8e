# A small image with brokermark as its entry point:
#
#   docker build --tag brokermark .
#   docker run --rm --network host --user "$(id -u):$(id -g)" --volume "$PWD:/work" brokermark \
#     run kafka://127.0.0.1:9092 --rate 10k/s --for 30s
#
# `--user`: the results are written into the folder of the host, and belong to you. Without a volume they end with the container.
#
# With MPI, an ssh server and no entry point, for configs/kubernetes/mpijob.yaml:
#
#   docker build --target mpi --build-arg FEATURES=mpi --tag brokermark-mpi .
FROM rust:1-bookworm AS build
# Cargo features besides the default ones and `mongodb`: docs/BUILDING.md.
ARG FEATURES=
# gcc, g++ and make are in the image: librdkafka is compiled and linked in.
# hadolint ignore=DL3008
RUN apt-get update \
    && case ",$FEATURES," in *,mpi,*) apt-get install --yes --no-install-recommends libopenmpi-dev ;; esac \
    && case ",$FEATURES," in *,pulsar-rs,*) apt-get install --yes --no-install-recommends protobuf-compiler ;; esac \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY . .
RUN cargo build --locked --profile dist --features "mongodb,$FEATURES"

FROM debian:bookworm-slim AS mpi
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates openmpi-bin openssh-client openssh-server \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 1000 --create-home mpiuser \
    && install --directory --owner mpiuser /home/mpiuser/.ssh
# The MPI Operator mounts a key pair at /home/mpiuser/.ssh: it is the user's key and the server's, and belongs to root. The pods have
# new addresses in each job, so no key of a host is known before.
RUN printf '%s\n' 'Port 2222' 'HostKey /home/mpiuser/.ssh/id_rsa' 'PidFile /home/mpiuser/sshd.pid' 'StrictModes no' \
        > /home/mpiuser/.sshd_config \
    && printf '%s\n' 'Host *' '    Port 2222' '    StrictHostKeyChecking no' '    UserKnownHostsFile /dev/null' '    LogLevel ERROR' \
        > /etc/ssh/ssh_config.d/mpi.conf
COPY --from=build /source/target/dist/brokermark /usr/local/bin/brokermark
USER 1000
WORKDIR /home/mpiuser

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --uid 10001 --create-home brokermark \
    && install --directory --owner brokermark /work
COPY --from=build /source/target/dist/brokermark /usr/local/bin/brokermark
# By its number: from a name, Kubernetes cannot tell that the user is not root.
USER 10001
WORKDIR /work
ENTRYPOINT ["brokermark"]
CMD ["--help"]
