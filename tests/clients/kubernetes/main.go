// Reads Kubernetes manifests into the types that the API's own servers read them into, and refuses a key that these do not have, a value
// of another type, and a kind that is not known here.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	strict "sigs.k8s.io/yaml"
)

// The keys of the MPI Operator's v2beta1 that a job may set (a module of its types cannot be had everywhere), around the pods, which
// are Kubernetes' own.
type mpiJob struct {
	meta.TypeMeta `json:",inline"`
	Metadata      meta.ObjectMeta `json:"metadata"`
	Spec          struct {
		SlotsPerWorker    *int32 `json:"slotsPerWorker"`
		SSHAuthMountPath  string `json:"sshAuthMountPath"`
		MPIImplementation string `json:"mpiImplementation"`
		RunPolicy         struct {
			CleanPodPolicy          *string `json:"cleanPodPolicy"`
			TTLSecondsAfterFinished *int32  `json:"ttlSecondsAfterFinished"`
			ActiveDeadlineSeconds   *int64  `json:"activeDeadlineSeconds"`
			BackoffLimit            *int32  `json:"backoffLimit"`
			Suspend                 *bool   `json:"suspend"`
		} `json:"runPolicy"`
		MPIReplicaSpecs struct {
			Launcher replicas
			Worker   replicas
		} `json:"mpiReplicaSpecs"`
	} `json:"spec"`
}

type replicas struct {
	Replicas      *int32               `json:"replicas"`
	RestartPolicy string               `json:"restartPolicy"`
	Template      core.PodTemplateSpec `json:"template"`
}

// What the manifests may contain.
func typed(kind meta.TypeMeta) (any, error) {
	switch kind.APIVersion + " " + kind.Kind {
	case "v1 PersistentVolumeClaim":
		return &core.PersistentVolumeClaim{}, nil
	case "batch/v1 Job":
		return &batch.Job{}, nil
	case "kubeflow.org/v2beta1 MPIJob":
		return &mpiJob{}, nil
	}
	return nil, fmt.Errorf("the kind %s %q is not known here", kind.APIVersion, kind.Kind)
}

func check(path string) (int, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 0; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return number, nil
		}
		if err != nil {
			return number, err
		}
		var kind meta.TypeMeta
		// Only the kind, to know which keys there may be.
		if err := strict.Unmarshal(document, &kind); err != nil {
			return number, err
		}
		into, err := typed(kind)
		if err != nil {
			return number, err
		}
		if err := strict.UnmarshalStrict(document, into); err != nil {
			return number, fmt.Errorf("%s: %w", kind.Kind, err)
		}
	}
}

func main() {
	failed := len(os.Args) < 2
	for _, path := range os.Args[1:] {
		documents, err := check(path)
		if err == nil && documents == 0 {
			err = errors.New("it has no document")
		}
		if err != nil {
			failed = true
			fmt.Fprintf(os.Stderr, "%s: %v\n", path, err)
		}
	}
	if failed {
		os.Exit(1)
	}
}
