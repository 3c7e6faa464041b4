package serving

import (
	"strings"

	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/serving"
)

// What KServe's storage initializer is called, where models are, and the volumes that hold them.
const (
	modelFolder     = "/mnt/models"
	initializer     = "storage-initializer"
	initializerFrom = "kserve/storage-initializer:v0.15.2"
	claimVolume     = "kserve-pvc-source"
	modelVolume     = "kserve-provision-location"
	storageVariable = "STORAGE_URI"
)

// fetched are the beginnings of places that the storage initializer downloads from.
//
//nolint:gochecknoglobals // a constant
var fetched = []string{"s3://", "gs://", "hf://", "https://", "http://", "hdfs://", "webhdfs://"}

// storage is where a model is.
type storage struct {
	uri         string // "" is that there is none
	claim, path string // of pvc://CLAIM/PATH; "" is that it is downloaded
}

// storageOf reads the place of a model.
func storageOf(uri string) (storage, *serving.Fault) {
	s := storage{uri: uri}
	switch scheme, rest, ok := strings.Cut(uri, "://"); {
	case uri == "":
	case !ok:
		return s, invalid("storageUri %q has no scheme; write pvc://CLAIM/PATH, or one of s3, gs, hf, https", uri)
	case scheme == "pvc":
		s.claim, s.path, _ = strings.Cut(rest, "/")
		s.path = strings.Trim(s.path, "/")
		if s.claim == "" {
			return s, invalid("storageUri %q names no volume; write pvc://CLAIM/PATH", uri)
		}
		if s.path == ".." || strings.HasPrefix(s.path, "../") || strings.Contains(s.path, "/../") || strings.HasSuffix(s.path, "/..") {
			return s, invalid("storageUri %q leads out of the volume; write a path without ..", uri)
		}
	case scheme == "oci":
		return s, invalid("storageUri %s: models in images are not served; copy the model to a volume, and use pvc://CLAIM/PATH", uri)
	default:
		for _, begin := range fetched {
			if strings.HasPrefix(uri, begin) {
				return s, nil
			}
		}
		known := []string{"pvc", "s3", "gs", "hf", "https", "http", "hdfs", "webhdfs"}
		if near := gpu.NearestWord(scheme, known); near != "" {
			return s, invalid("storageUri: %s:// is not known; did you mean %s://?", scheme, near)
		}
		return s, invalid("storageUri: %s:// is not served; use pvc, s3, gs, hf, or https", scheme)
	}
	return s, nil
}

// mount puts the model into a container of a pod's spec, as KServe does (storage_initializer_injector.go): a claim read-only, and
// what is downloaded by an init container. That one asks for zero GPUs, so a LimitRange gives it none.
func (s *storage) mount(spec, container map[string]any, writable bool) {
	if s.uri == "" {
		return
	}
	mount := map[string]any{"name": modelVolume, "mountPath": modelFolder, "readOnly": !writable}
	volume := map[string]any{"name": modelVolume, "emptyDir": map[string]any{}}
	if s.claim != "" {
		mount["name"] = claimVolume
		if s.path != "" {
			mount["subPath"] = s.path
		}
		volume = map[string]any{"name": claimVolume, "persistentVolumeClaim": map[string]any{"claimName": s.claim}}
	} else {
		none := map[string]any{"cpu": "100m", "memory": "100Mi", api.ResourceGPU: "0"}
		inits, _ := spec["initContainers"].([]any)
		spec["initContainers"] = append(inits, map[string]any{
			"name": initializer, "image": initializerFrom, "args": []any{s.uri, modelFolder}, "terminationMessagePolicy": "FallbackToLogsOnError",
			"resources":    map[string]any{"requests": none, "limits": map[string]any{"cpu": "1", "memory": "1Gi", api.ResourceGPU: "0"}},
			"volumeMounts": []any{map[string]any{"name": modelVolume, "mountPath": modelFolder}},
		})
	}
	mounts, _ := container["volumeMounts"].([]any)
	container["volumeMounts"] = append(mounts, mount)
	volumes, _ := spec["volumes"].([]any)
	spec["volumes"] = append(volumes, volume)
}
