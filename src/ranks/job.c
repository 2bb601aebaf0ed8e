/*
 * The eight functions of MPI that brokermark calls. They are in C because names such as MPI_COMM_WORLD are macros, which mean something else
 * in each implementation of MPI: the compiler wrapper `mpicc` knows its own.
 */
#include <stddef.h>

#include <mpi.h>

/* Joins the job. Returns 0, or not 0 where that fails or no thread but the main one may call MPI. `local_rank` and `local_size`: which
 * of its host's ranks this one is, and how many they are. `cores`: a bit for each core on which this rank may run, in so many bytes;
 * afterwards for each core on which one of the host's ranks may run. `core_count`: how many this rank has; afterwards the sum of those. */
int brokermark_mpi_join(int *rank, int *size, int *local_rank, int *local_size, unsigned char *cores, int cores_bytes,
                        int *core_count) {
    int provided = MPI_THREAD_SINGLE;
    MPI_Comm local;
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED) {
        return 1;
    }
    return MPI_Comm_rank(MPI_COMM_WORLD, rank) != MPI_SUCCESS || MPI_Comm_size(MPI_COMM_WORLD, size) != MPI_SUCCESS ||
           MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local) != MPI_SUCCESS ||
           MPI_Comm_rank(local, local_rank) != MPI_SUCCESS || MPI_Comm_size(local, local_size) != MPI_SUCCESS ||
           MPI_Allreduce(MPI_IN_PLACE, cores, cores_bytes, MPI_BYTE, MPI_BOR, local) != MPI_SUCCESS ||
           MPI_Allreduce(MPI_IN_PLACE, core_count, 1, MPI_INT, MPI_SUM, local) != MPI_SUCCESS ||
           MPI_Comm_free(&local) != MPI_SUCCESS;
}

/* Sends rank 0's bytes to all others. Returns 0, or not 0 where that fails. */
int brokermark_mpi_broadcast(unsigned char *bytes, int length) {
    return MPI_Bcast(bytes, length, MPI_BYTE, 0, MPI_COMM_WORLD) != MPI_SUCCESS;
}

/* Leaves the job. */
void brokermark_mpi_leave(void) {
    MPI_Finalize();
}
