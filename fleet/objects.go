package fleet

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// need is one ConfigMap or Secret, or one key of it, that a pod cannot do
// without.
type need struct {
	secret    bool
	name, key string
	container string // whose environment; "" is a volume
	volume    string
}

// missing is a need that is not met, in a kubelet's words.
type missing struct {
	need
	message string
}

// rootCA is the ConfigMap that every namespace gets from the controller
// manager; every pod mounts it, so it is taken for granted.
const rootCA = "kube-root-ca.crt"

// needs returns what a pod needs, in the order of its spec.
func needs(pod *v1.Pod) []need {
	var out []need
	for _, v := range pod.Spec.Volumes {
		out = append(out, volumeNeeds(v)...)
	}
	for i := range pod.Spec.InitContainers {
		out = append(out, envNeeds(&pod.Spec.InitContainers[i])...)
	}
	for i := range pod.Spec.Containers {
		out = append(out, envNeeds(&pod.Spec.Containers[i])...)
	}
	return out
}

// volumeNeeds returns what one volume is made of.
func volumeNeeds(v v1.Volume) []need {
	plain, secret := need{volume: v.Name}, need{volume: v.Name, secret: true}
	var out []need
	add := func(n need, name string, list []v1.KeyToPath, optional *bool) {
		items(list, func(key string) { out = n.add(out, name, key, optional) })
	}
	switch {
	case v.ConfigMap != nil:
		add(plain, v.ConfigMap.Name, v.ConfigMap.Items, v.ConfigMap.Optional)
	case v.Secret != nil:
		add(secret, v.Secret.SecretName, v.Secret.Items, v.Secret.Optional)
	case v.Projected != nil:
		for _, s := range v.Projected.Sources {
			if m := s.ConfigMap; m != nil {
				add(plain, m.Name, m.Items, m.Optional)
			}
			if m := s.Secret; m != nil {
				add(secret, m.Name, m.Items, m.Optional)
			}
		}
	}
	return out
}

// envNeeds returns what the environment of a container is made of.
func envNeeds(c *v1.Container) []need {
	plain, secret := need{container: c.Name}, need{container: c.Name, secret: true}
	var out []need
	for _, e := range c.EnvFrom {
		if m := e.ConfigMapRef; m != nil {
			out = plain.add(out, m.Name, "", m.Optional)
		}
		if m := e.SecretRef; m != nil {
			out = secret.add(out, m.Name, "", m.Optional)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if m := e.ValueFrom.ConfigMapKeyRef; m != nil {
			out = plain.add(out, m.Name, m.Key, m.Optional)
		}
		if m := e.ValueFrom.SecretKeyRef; m != nil {
			out = secret.add(out, m.Name, m.Key, m.Optional)
		}
	}
	return out
}

// add adds n for an object and a key of it, unless the pod can do without.
func (n need) add(to []need, name, key string, optional *bool) []need {
	if name == rootCA || optional != nil && *optional {
		return to
	}
	n.name, n.key = name, key
	return append(to, n)
}

// items calls f for each key that is projected, or once for the whole object.
func items(list []v1.KeyToPath, f func(key string)) {
	if len(list) == 0 {
		f("")
	}
	for _, item := range list {
		f(item.Key)
	}
}

// objects reads ConfigMaps and Secrets, and remembers those that are there for
// a few seconds, so a Deployment's pods do not read the same one each.
type objects struct {
	fleet *Fleet
	mu    sync.Mutex
	data  map[objectKey]objectData
}

type objectKey struct {
	namespace, name string
	secret          bool
}

type objectData struct {
	values map[string]string
	until  time.Time
}

const objectsKept = 5 * time.Second

// get returns the data of a ConfigMap or Secret; it is an error if there is
// none.
func (o *objects) get(ctx context.Context, key objectKey) (map[string]string, error) {
	now := o.fleet.now()
	o.mu.Lock()
	known, ok := o.data[key]
	o.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.values, nil
	}
	values := map[string]string{}
	if key.secret {
		s, err := o.fleet.client.CoreV1().Secrets(key.namespace).Get(ctx, key.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		for k, v := range s.Data {
			values[k] = string(v)
		}
		maps.Copy(values, s.StringData)
	} else {
		m, err := o.fleet.client.CoreV1().ConfigMaps(key.namespace).Get(ctx, key.name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		maps.Copy(values, m.Data)
		for k, v := range m.BinaryData {
			values[k] = string(v)
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, v := range o.data {
		if !now.Before(v.until) {
			delete(o.data, k)
		}
	}
	o.data[key] = objectData{values, now.Add(objectsKept)}
	return values, nil
}

// check returns which needs of a pod are not met.
func (o *objects) check(ctx context.Context, namespace string, list []need) []missing {
	var out []missing
	for _, n := range list {
		values, err := o.get(ctx, objectKey{namespace, n.name, n.secret})
		kind, title := "configmap", "ConfigMap"
		if n.secret {
			kind, title = "secret", "Secret"
		}
		_, has := values[n.key]
		switch {
		case apierrors.IsNotFound(err):
			out = append(out, missing{n, fmt.Sprintf("%s %q not found", kind, n.name)})
		case err != nil:
			out = append(out, missing{n, err.Error()})
		case n.key != "" && !has && n.volume != "":
			out = append(out, missing{n, fmt.Sprintf("references non-existent %s key: %s", map[bool]string{true: "secret", false: "config"}[n.secret], n.key)})
		case n.key != "" && !has:
			out = append(out, missing{n, fmt.Sprintf("couldn't find key %s in %s %s/%s", n.key, title, namespace, n.name)})
		}
	}
	return out
}
