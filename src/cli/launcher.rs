//! Whether a launcher has started this process as one of several, as `mpirun` and `srun` say in environment variables.
//!
//! Several processes that each run the whole load, unnoticed, put several times the load that was asked for on a broker.

use std::env;

use super::Exit;

/// Variables with the number of processes and the number of this one, from 0: of Open MPI's mpirun; of process managers with PMI, such as
/// MPICH's; of MVAPICH's mpirun_rsh.
const LAUNCHERS: [(&str, &str); 3] = [
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),
    ("PMI_SIZE", "PMI_RANK"),
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),
];

/// Slurm's step, and the first of those that are not `srun`: a batch script, an interactive shell.
const SLURM_STEP: &str = "SLURM_STEP_ID";
const NO_SRUN: u64 = 0xffff_fff0;

/// One of several processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Launched {
    /// From 0.
    number: usize,
    size: usize,
    /// The variables that say so.
    size_variable: &'static str,
    number_variable: &'static str,
    /// Without this one, it would be alone.
    decisive: &'static str,
}

/// `None`: this process is alone, as far as is known.
pub fn launched() -> Option<Launched> {
    launched_by(|variable| env::var(variable).ok())
}

fn launched_by(variable: impl Fn(&str) -> Option<String>) -> Option<Launched> {
    let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
    let found = |(size_variable, number_variable): (&'static str, &'static str)| {
        let size = number(size_variable)?;
        Some(Launched {
            number: number(number_variable)?,
            size,
            size_variable,
            number_variable,
            decisive: size_variable,
        })
    };
    // Started by mpirun within a step of Slurm, a process has the variables of both: the nearer one counts.
    let by_launcher = LAUNCHERS.into_iter().find_map(found);
    let by_slurm = || {
        let step = variable(SLURM_STEP)?.trim().parse::<u64>().ok()?;
        let sizes = ["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"];
        let task = sizes.into_iter().find_map(|size| found((size, "SLURM_PROCID")))?;
        (step < NO_SRUN).then_some(Launched { decisive: SLURM_STEP, ..task })
    };
    by_launcher.or_else(by_slurm).filter(|launched| launched.size > 1)
}

/// Refuses a command that loads a broker and has no shares, if there are several of it.
pub fn refuse(command: &str) -> Result<(), Exit> {
    let refused = |launched: Launched| Err(Exit::usage(format!("error: {}", launched.refusal_of(command))));
    launched().map_or(Ok(()), refused)
}

impl Launched {
    /// Why `run` does not run the whole load here.
    pub fn refusal_to_run(&self) -> String {
        let Launched { number, size, size_variable, number_variable, decisive } = self;
        let joined = if cfg!(feature = "mpi") {
            "start it with the mpirun or srun of the MPI that it was built with (Slurm's `srun --mpi=list` shows which it has, as in `srun --mpi=pmix`)"
        } else {
            "build brokermark with `--features mpi`"
        };
        format!(
            "{size_variable} says that this is process {number} of {size}, counted from 0, and MPI does not join them: each would run the whole \
             load. To run it together, {joined}, or give each process its share: `--share $(({number_variable} + 1))/{size}` with `--start-at`. \
             To run it in this process alone, unset {decisive}"
        )
    }

    /// Why a command does not run here that has no shares.
    fn refusal_of(&self, command: &str) -> String {
        let Launched { number, size, size_variable, decisive, .. } = self;
        format!(
            "{size_variable} says that this is process {number} of {size}, counted from 0, and each would do the same: `brokermark {command}` is \
             for one process. Start it without mpirun or srun, or unset {decisive}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(variables: &[(&str, &str)]) -> Option<(usize, usize, &'static str)> {
        let value =
            |wanted: &str| variables.iter().find(|(name, _)| *name == wanted).map(|(_, value)| (*value).to_owned());
        launched_by(value).map(|found| (found.number, found.size, found.size_variable))
    }

    #[test]
    fn rank_is_known_by_the_launchers_variables() {
        for (size, rank) in LAUNCHERS {
            assert_eq!(by(&[(size, "4"), (rank, "3")]), Some((3, 4, size)));
            assert_eq!(by(&[(size, "1"), (rank, "0")]), None, "alone");
            assert_eq!(by(&[(size, "4")]), None, "not of the process");
        }
        assert_eq!(by(&[]), None);
    }

    #[test]
    fn srun_task_is_one_of_its_step_batch_script_is_alone() {
        let job = [("SLURM_NTASKS", "8"), ("SLURM_PROCID", "0")];
        let with = |more: &[(&'static str, &'static str)]| by(&[&job, more].concat());
        assert_eq!(with(&[]), None, "a batch script");
        for no_srun in ["batch", "interactive", "4294967291", "4294967290", ""] {
            assert_eq!(with(&[("SLURM_STEP_ID", no_srun)]), None, "{no_srun}");
        }
        assert_eq!(with(&[("SLURM_STEP_ID", "0")]), Some((0, 8, "SLURM_NTASKS")));
        assert_eq!(with(&[("SLURM_STEP_ID", "3"), ("SLURM_STEP_NUM_TASKS", "1")]), None, "srun of one task");
        let two = with(&[("SLURM_STEP_ID", "3"), ("SLURM_STEP_NUM_TASKS", "2")]);
        assert_eq!(two, Some((0, 2, "SLURM_STEP_NUM_TASKS")));
        let by_mpirun = with(&[("SLURM_STEP_ID", "3"), ("OMPI_COMM_WORLD_SIZE", "5"), ("OMPI_COMM_WORLD_RANK", "4")]);
        assert_eq!(by_mpirun, Some((4, 5, "OMPI_COMM_WORLD_SIZE")));
        let alone = with(&[("SLURM_STEP_ID", "3"), ("OMPI_COMM_WORLD_SIZE", "1"), ("OMPI_COMM_WORLD_RANK", "0")]);
        assert_eq!(alone, None, "mpirun -n 1 of one task of several");
    }
}
