package serving

import (
	"encoding/json"
	"slices"
	"strings"

	"berth.dev/berth/api/kserve"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/serving"
)

// What KServe calls the Secret of a storage spec, the key that is used if none is named, and the variables of the download
// (service_account_credentials.go, kserve_storage.py).
const (
	specSecret   = "storage-config"
	specKey      = "default_s3"
	specVariable = "STORAGE_CONFIG"
	specOver     = "STORAGE_OVERRIDE_CONFIG"
)

// storageSpec is the field storage of a model: a key of a Secret says how its store is reached. The pod reads the Secret, and Berth does not.
type storageSpec struct {
	secret, key string
	optional    bool   // no key is named, so there need be none
	over        string // parameters, as JSON; "" is none
}

// storageFields are the fields of storage, and specFields those that parameters and the Secret's key may have, which is JSON.
var (
	storageFields = []string{"key", "path", "parameters"}
	specFields    = []string{"type", "bucket", "endpoint_url", "access_key_id", "secret_access_key", "region", "ca_bundle", "verify_ssl", "anonymous", "default_bucket"}
)

// readStorage reads the field storage of a model, and where the model is by it.
func (w *Written) readStorage(at string, field any, m *serving.Model) *serving.Fault {
	spec, ok := field.(map[string]any)
	if !ok {
		return invalid("%s must be an object", at)
	}
	for name := range spec {
		if !slices.Contains(storageFields, name) {
			return invalid("%s.%s is not served; use %s", at, name, strings.Join(storageFields, ", "))
		}
	}
	over, params := map[string]string{}, texts(spec["parameters"])
	for name, v := range params {
		if over[name], ok = v.(string); !ok {
			return invalid("%s.parameters.%s must be a text; write it in quotes", at, name)
		}
		if near := gpu.NearestWord(name, specFields); near != name && !slices.Contains(specFields, name) {
			if near == "" {
				return invalid("%s.parameters.%s is not known; use %s", at, name, strings.Join(specFields, ", "))
			}
			return invalid("%s.parameters.%s is not known; did you mean %s?", at, name, near)
		}
	}
	key, path := text(spec["key"]), text(spec["path"])
	switch {
	case m.StorageURI != "" && path != "":
		return invalid("%s.path and storageUri both say where the model is; keep one", at)
	case m.StorageURI == "" && (over["type"] == "" || over["bucket"] == ""):
		return invalid("%s: write parameters with type (s3) and bucket, or a storageUri: Berth reads no Secrets, so it does not see those in %s", at, specSecret)
	case m.StorageURI == "":
		m.StorageURI = over["type"] + "://" + over["bucket"] + "/" + strings.Trim(path, "/")
	}
	place, fault := serving.PlaceOf(m.StorageURI)
	if fault != nil {
		return fault
	}
	if place.Scheme != "s3" {
		return invalid("%s is served for s3, and the model is at %s; credentials for other places are the Secrets of the ServiceAccount", at, place.Scheme)
	}
	s := &storageSpec{secret: specSecret, key: key}
	if name := w.object.Annotations[kserve.AnnotationStorageSecret]; name != "" {
		s.secret = name
	}
	if s.optional = key == ""; s.optional {
		s.key = specKey
	}
	if len(over) > 0 {
		raw, err := json.Marshal(over)
		if err != nil {
			return invalid("%s.parameters cannot be written: %v", at, err)
		}
		s.over = string(raw)
	}
	w.storage = s
	return nil
}

// give adds the variables of a storage spec to the container that downloads; nil adds none.
func (s *storageSpec) give(container map[string]any) {
	if s == nil {
		return
	}
	env, _ := container["env"].([]any)
	ref := map[string]any{"name": s.secret, "key": s.key}
	if s.optional {
		ref["optional"] = true
	}
	env = append(env, map[string]any{"name": specVariable, "valueFrom": map[string]any{"secretKeyRef": ref}})
	if s.over != "" {
		env = append(env, map[string]any{"name": specOver, "value": s.over})
	}
	container["env"] = env
}
