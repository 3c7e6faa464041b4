package serving

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/kserve"
)

// How the key of a Google service account reaches the init container (gcs_secret.go of KServe).
const (
	googleFile   = "gcloud-application-credentials.json"
	googleFolder = "/var/secrets"
)

// Credentials are what the download of a model is allowed with: the Secrets that a ServiceAccount lists, by their names alone, and the
// annotations by which KServe describes a server of S3.
type Credentials struct {
	Secrets []string
	notes   map[string]string
}

// CredentialsOf reads a ServiceAccount. Tokens and pull secrets that a cluster lists there by itself are left out.
func CredentialsOf(account *corev1.ServiceAccount) *Credentials {
	out := &Credentials{notes: account.Annotations}
	for _, ref := range account.Secrets {
		if !strings.HasPrefix(ref.Name, account.Name+"-token-") && !strings.HasPrefix(ref.Name, account.Name+"-dockercfg-") && ref.Name != "" {
			out.Secrets = append(out.Secrets, ref.Name)
		}
	}
	return out
}

// Account returns the ServiceAccount whose credentials the download of the model uses; "" is that nothing is downloaded with any.
func (w *Written) Account() string {
	uri := ""
	if m := w.Service.Model; m != nil {
		uri = m.StorageURI
	} else if list, _ := w.predictor["containers"].([]any); len(list) > 0 {
		if c, ok := list[0].(map[string]any); ok {
			uri = ownStorage(c)
		}
	}
	if s, fault := storageOf(uri); fault != nil || uri == "" || s.Scheme == "pvc" || s.Scheme == "oci" {
		return ""
	}
	return cmp.Or(text(w.predictor["serviceAccountName"]), "default")
}

// Use has an image download the model with these credentials; nil is none, and "" is KServe's storage initializer.
func (w *Written) Use(c *Credentials, image string) { w.credentials, w.image = c, image }

// give adds credentials to the init container of a pod's spec. All keys of the Secrets become its variables, where Berth need not read them;
// the two that KServe names otherwise are variables too, by the first Secret. A key that is not there is left out, and the download says what it misses; a Secret that
// is not there keeps the pod from starting, as with KServe.
func (c *Credentials) give(s *storage, spec, container map[string]any) {
	if c == nil {
		return
	}
	env := s3Variables(c.notes)
	var from []any
	for i, name := range c.Secrets {
		from = append(from, map[string]any{"secretRef": map[string]any{"name": name}})
		if i > 0 {
			continue
		}
		for variable, key := range map[string]string{"AWS_ACCESS_KEY_ID": "awsAccessKeyID", "AWS_SECRET_ACCESS_KEY": "awsSecretAccessKey"} {
			env = append(env, map[string]any{"name": variable, "valueFrom": map[string]any{"secretKeyRef": map[string]any{"name": name, "key": key, "optional": true}}})
		}
		if s.Scheme != "gs" {
			continue
		}
		volumes, _ := spec["volumes"].([]any)
		spec["volumes"] = append(volumes, map[string]any{"name": "user-gcp-sa", "secret": map[string]any{"secretName": name, "optional": true}})
		mounts, _ := container["volumeMounts"].([]any)
		container["volumeMounts"] = append(mounts, map[string]any{"name": "user-gcp-sa", "mountPath": googleFolder, "readOnly": true})
		env = append(env, map[string]any{"name": "GOOGLE_APPLICATION_CREDENTIALS", "value": googleFolder + "/" + googleFile})
	}
	if len(from) > 0 {
		container["envFrom"] = from
	}
	if len(env) > 0 {
		slices.SortFunc(env, func(a, b any) int {
			return cmp.Compare(text(a.(map[string]any)["name"]), text(b.(map[string]any)["name"]))
		})
		container["env"] = env
	}
}

// s3Variables are the variables of KServe's storage initializer for its annotations (s3_secret.go).
func s3Variables(notes map[string]string) (env []any) {
	add := func(variable, value string) {
		if value != "" {
			env = append(env, map[string]any{"name": variable, "value": value})
		}
	}
	note := func(name string) string { return notes[kserve.Group+"/"+name] }
	if endpoint := note("s3-endpoint"); endpoint != "" {
		scheme := "https://"
		if note("s3-usehttps") == "0" {
			scheme = "http://"
		}
		add("S3_ENDPOINT", endpoint)
		add("AWS_ENDPOINT_URL", scheme+endpoint)
	}
	add("S3_USE_HTTPS", note("s3-usehttps"))
	add("AWS_DEFAULT_REGION", note("s3-region"))
	add("S3_VERIFY_SSL", note("s3-verifyssl"))
	add("S3_USER_VIRTUAL_BUCKET", note("s3-usevirtualbucket"))
	add("S3_USE_ACCELERATE", note("s3-useaccelerate"))
	add("awsAnonymousCredential", note("s3-useanoncredential"))
	return env
}
