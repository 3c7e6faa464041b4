package notebook

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/gpu"
)

// The images of notebooks that name none: those that Kubeflow 1.10 offers first,
// without and with CUDA.
const (
	imagePlain = "ghcr.io/kubeflow/kubeflow/notebook-servers/jupyter-scipy:v1.10.0"
	imageCUDA  = "ghcr.io/kubeflow/kubeflow/notebook-servers/jupyter-pytorch-cuda-full:v1.10.0"
)

const (
	homePath    = "/home/jovyan" // of the images of Kubeflow and of Jupyter's docker-stacks
	noVolume    = "none"
	volumeSize  = "10Gi"
	longestName = 52 // beyond it the labels of a StatefulSet's pods have no room
)

// notebookSpec is a notebook as flags describe it.
type notebookSpec struct {
	name, namespace string
	image           string
	gpus            int
	gpuMemory       int    // GiB of each GPU; 0 is all of it
	mig             string // PROFILE or PROFILE=N
	cpu, memory     string
	volumes         []string // CLAIM or CLAIM:PATH
	newVolume       string   // size, or "none"
	nodeSelector    map[string]string
	creator         string
}

// check refuses what cannot work, before any call is made.
func (w *notebookSpec) check() error {
	if err := checkName(w.name); err != nil {
		return err
	}
	switch {
	case w.gpus < 0 || w.gpus > 64:
		return term.Usagef("invalid --gpus %d: must be between 0 and 64", w.gpus)
	case w.gpuMemory < 0:
		return term.Usagef("invalid --gpu-memory %d: must be the memory in GiB", w.gpuMemory)
	case w.gpuMemory > largestGPU():
		return term.Usagef("invalid --gpu-memory %d: no known GPU has that many GiB; the largest, %s, has %d", w.gpuMemory, gpu.Largest().Name, largestGPU())
	case w.mig != "" && (w.gpus > 0 || w.gpuMemory > 0):
		return term.Usagef("--mig requests MIG devices, and --gpus or --gpu-memory GPUs: set only one of them")
	}
	for flag, text := range map[string]string{"cpu": w.cpu, "memory": w.memory, "new-volume": w.newVolume} {
		if text == "" || flag == "new-volume" && text == noVolume {
			continue
		}
		if q, err := resource.ParseQuantity(text); err != nil || q.Sign() <= 0 {
			return term.Usagef("invalid --%s %q: must be a quantity such as 500m, 4, or 16Gi", flag, text)
		}
	}
	if _, _, err := w.migAmount(); err != nil {
		return err
	}
	_, err := w.mounts()
	return err
}

// checkName refuses a name that a notebook's Service or StatefulSet cannot have.
func checkName(name string) error {
	if len(name) > longestName {
		return term.Usagef("the name %s has %d characters, but a notebook name may have at most %d, because pod labels contain it", name, len(name), longestName)
	}
	if says := validation.IsDNS1035Label(name); len(says) > 0 {
		return term.Usagef("invalid name %q: must consist of lowercase letters, digits, and -, and start with a letter, because its Service has the same name", name)
	}
	return nil
}

// mostMIG bounds the MIG devices of one notebook: 64 GPUs in seven.
const mostMIG = 448

// largestGPU is the memory of the largest known GPU, in GiB.
func largestGPU() int { return int(gpu.Largest().MemoryMiB >> 10) }

// migAmount reads --mig.
func (w *notebookSpec) migAmount() (profile string, count int, err error) {
	if w.mig == "" {
		return "", 0, nil
	}
	profile, text, given := strings.Cut(w.mig, "=")
	count = 1
	if given {
		if count, err = strconv.Atoi(text); err != nil || count < 1 || count > mostMIG {
			return "", 0, term.Usagef("invalid --mig %q: must be a profile, as in 1g.5gb, or a profile and a count, as in 1g.5gb=2", w.mig)
		}
	}
	profile = strings.TrimPrefix(profile, api.ResourceMIGPrefix)
	if profile == "" || len(validation.IsQualifiedName(api.ResourceMIGPrefix+profile)) > 0 {
		return "", 0, term.Usagef("invalid --mig %q: must be a profile, as in 1g.5gb, or a profile and a count, as in 1g.5gb=2", w.mig)
	}
	if nearest, known := gpu.KnownProfile(profile); !known {
		return "", 0, term.Usagef("invalid --mig %q: no known GPU has MIG devices of the profile %s; the nearest is %s", w.mig, profile, nearest)
	}
	return profile, count, nil
}

// volumeMount is a claim and where it is mounted.
type volumeMount struct{ claim, path string }

// mounts reads --volume; the first without a path is the home folder.
func (w *notebookSpec) mounts() ([]volumeMount, error) {
	var out []volumeMount
	paths := map[string]bool{}
	for _, text := range w.volumes {
		claim, path, given := strings.Cut(text, ":")
		if !given {
			path = homePath
			if paths[path] {
				path = "/home/jovyan/" + claim
			}
		}
		switch {
		case len(validation.IsDNS1123Subdomain(claim)) > 0:
			return nil, term.Usagef("invalid --volume %q: must be the name of a PersistentVolumeClaim, or CLAIM:PATH", text)
		case !strings.HasPrefix(path, "/"):
			return nil, term.Usagef("invalid --volume %q: the path must be absolute, as in %s:/data", text, claim)
		case paths[path]:
			return nil, term.Usagef("invalid --volume %q: another volume is already mounted at %s", text, path)
		}
		paths[path] = true
		out = append(out, volumeMount{claim, path})
	}
	return out, nil
}

// workspace is the volume claim to make: that of --new-volume, or of a size of
// its own where no volume is mounted at the home folder. It is nil for none.
func (w *notebookSpec) workspace() (*v1.PersistentVolumeClaim, error) {
	size := w.newVolume
	mounts, err := w.mounts()
	if err != nil {
		return nil, err
	}
	for _, m := range mounts {
		if m.path == homePath && size == "" {
			return nil, nil //nolint:nilnil // nothing is to be made
		}
		if m.path == homePath && size != noVolume {
			return nil, term.Usagef("--new-volume and --volume %[2]s are both mounted at %[1]s: set a path for --volume, or omit --new-volume", homePath, m.claim)
		}
	}
	if size == noVolume {
		return nil, nil //nolint:nilnil // nothing is to be made
	}
	if size == "" {
		size = volumeSize
	}
	q, err := resource.ParseQuantity(size)
	if err != nil {
		return nil, term.Usagef("invalid --new-volume %q: must be a size such as 20Gi", size)
	}
	return &v1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: w.name + "-workspace", Namespace: w.namespace, Labels: map[string]string{api.LabelNotebookVolume: w.name},
		},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
			Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: q}},
		},
	}, nil
}

// build makes the notebook, and the claim of its own or nil.
func (w *notebookSpec) build() (*kubeflow.Notebook, *v1.PersistentVolumeClaim, error) {
	claim, err := w.workspace()
	if err != nil {
		return nil, nil, err
	}
	mounts, err := w.mounts()
	if err != nil {
		return nil, nil, err
	}
	if claim != nil {
		mounts = append([]volumeMount{{claim.Name, homePath}}, mounts...)
	}
	c := v1.Container{Name: w.name, Image: w.imageName(), Resources: w.resources()}
	spec := v1.PodSpec{NodeSelector: w.nodeSelector}
	for i, m := range mounts {
		name := "volume-" + strconv.Itoa(i)
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: name, VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: m.claim},
		}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: name, MountPath: m.path})
	}
	if w.wantsGPU() { // loaders of data pass it on through shared memory, of which containers have 64 MiB
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: "dshm", VolumeSource: v1.VolumeSource{
			EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory},
		}})
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: "dshm", MountPath: "/dev/shm"})
	}
	spec.Containers = []v1.Container{c}
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, fmt.Errorf("write notebook %s: %w", w.name, err)
	}
	nb := &kubeflow.Notebook{
		TypeMeta: metav1.TypeMeta{APIVersion: kubeflow.GroupVersion.String(), Kind: kubeflow.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: w.name, Namespace: w.namespace, Labels: map[string]string{"app": w.name},
			Annotations: map[string]string{api.AnnotationServerType: "jupyter", api.AnnotationNotebookToken: api.TokenJupyter},
		},
		Spec: kubeflow.NotebookSpec{Template: kubeflow.NotebookTemplate{Spec: runtime.RawExtension{Raw: raw}}},
	}
	if w.creator != "" {
		nb.Annotations[api.AnnotationCreator] = w.creator
		nb.Annotations[api.AnnotationHubUser] = w.creator // which reaches the pod, as the other does not
	}
	return nb, claim, nil
}

func (w *notebookSpec) wantsGPU() bool { return w.gpus > 0 || w.gpuMemory > 0 || w.mig != "" }

func (w *notebookSpec) imageName() string {
	switch {
	case w.image != "":
		return w.image
	case w.wantsGPU():
		return imageCUDA
	}
	return imagePlain
}

// resources asks for CPU without a limit, for memory with an equal one, and for
// GPUs by their limit alone, which is the request too.
func (w *notebookSpec) resources() v1.ResourceRequirements {
	out := v1.ResourceRequirements{Requests: v1.ResourceList{}, Limits: v1.ResourceList{}}
	out.Requests[v1.ResourceCPU] = resource.MustParse("1")
	out.Requests[v1.ResourceMemory] = resource.MustParse("4Gi")
	if w.cpu != "" {
		out.Requests[v1.ResourceCPU] = resource.MustParse(w.cpu)
	}
	if w.memory != "" {
		out.Requests[v1.ResourceMemory] = resource.MustParse(w.memory)
		out.Limits[v1.ResourceMemory] = resource.MustParse(w.memory)
	}
	devices := func(name string, n int) {
		if n > 0 {
			out.Limits[v1.ResourceName(name)] = *resource.NewQuantity(int64(n), resource.DecimalSI)
		}
	}
	devices(api.ResourceGPU, w.gpus)
	devices(api.ResourceGPUMemory, w.gpuMemory)
	if profile, n, err := w.migAmount(); err == nil {
		devices(api.ResourceMIGPrefix+profile, n)
	}
	return out
}
