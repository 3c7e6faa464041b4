package serving

import (
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/serving"
)

// Initializer is the name of the init container that downloads a model.
const Initializer = "storage-initializer"

// Where KServe's storage initializer is, where models are, and the volumes that hold them.
const (
	modelFolder     = "/mnt/models"
	initializerFrom = "kserve/storage-initializer:v0.15.2"
	claimVolume     = "kserve-pvc-source"
	modelVolume     = "kserve-provision-location"
	storageVariable = "STORAGE_URI"
	imageFolder     = "models" // of an image with a model, as KServe's modelcars have it
)

// storage is where a model is.
type storage struct {
	serving.Place
	image string // of the init container that downloads it
	spec  *storageSpec
}

// storageOf reads the place of a model.
func storageOf(uri string) (storage, *serving.Fault) {
	p, fault := serving.PlaceOf(uri)
	return storage{Place: p, image: initializerFrom}, fault
}

// mount puts the model into a container of a pod's spec, as KServe does (storage_initializer_injector.go): a claim and an image read-only, and
// what is downloaded by an init container. That one asks for zero GPUs, so a LimitRange gives it none.
func (s *storage) mount(spec, container map[string]any, writable bool, use *Credentials) {
	if s.URI == "" {
		return
	}
	mount := map[string]any{"name": modelVolume, "mountPath": modelFolder, "readOnly": !writable}
	volume := map[string]any{"name": modelVolume, "emptyDir": map[string]any{}}
	switch s.Scheme {
	case "pvc":
		mount["name"] = claimVolume
		if s.Path != "" {
			mount["subPath"] = s.Path
		}
		volume = map[string]any{"name": claimVolume, "persistentVolumeClaim": map[string]any{"claimName": s.Host}}
	case "oci":
		mount["readOnly"], mount["subPath"] = true, imageFolder
		volume = map[string]any{"name": modelVolume, "image": map[string]any{"reference": strings.TrimPrefix(s.URI, "oci://")}}
	default:
		none := map[string]any{"cpu": "100m", "memory": "100Mi", api.ResourceGPU: "0"}
		inits, _ := spec["initContainers"].([]any)
		download := map[string]any{
			"name": Initializer, "image": s.image, "args": []any{s.URI, modelFolder}, "terminationMessagePolicy": "FallbackToLogsOnError",
			"resources":    map[string]any{"requests": none, "limits": map[string]any{"cpu": "1", "memory": "1Gi", api.ResourceGPU: "0"}},
			"volumeMounts": []any{map[string]any{"name": modelVolume, "mountPath": modelFolder}},
		}
		use.give(s, spec, download)
		s.spec.give(download)
		spec["initContainers"] = append(inits, download)
	}
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = append(mounts, mount)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, volume)
}
