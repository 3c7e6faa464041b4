package notebook

import (
	"crypto/sha256"
	"encoding/hex"
	stdjson "encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	rules "berth.dev/berth/core/notebook"
)

// The contract of Kubeflow's notebook-controller with the images that it runs.
const (
	homeFolder  = "/home/jovyan"
	portName    = "notebook-port"
	port        = 8888
	servicePort = 80
	envPrefix   = "NB_PREFIX"
	groupID     = 100 // that Jupyter's images give their files

	// mostName is the longest name of a notebook: its StatefulSet labels pods with
	// its name, a dash and a hash of ten letters, and a label has 63.
	mostName = 52
)

// children are what is made of a Notebook, before anything is asked of the API
// server.
type children struct {
	set     map[string]any // the StatefulSet, but for its resourceVersion
	typed   *appsv1.StatefulSet
	service map[string]any
	pod     *corev1.Pod // as its template says, without fields newer than this program
	want    rules.Want
	claims  []string
	image   string // of the first container
}

// build makes the children of a notebook. The error is a sentence for its user: no
// pod can be made of what is written. token is what its server is to ask for; "" is
// nothing.
func build(nb *kubeflow.Notebook, o *Options, token string) (*children, error) {
	if len(nb.Name) > mostName {
		return nil, fmt.Errorf("the name has %d characters, but a notebook name may have at most %d; choose a shorter one", len(nb.Name), mostName)
	}
	spec := map[string]any{}
	if len(nb.Spec.Template.Spec.Raw) > 0 {
		if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &spec); err != nil {
			return nil, fmt.Errorf("invalid spec.template.spec: %w", err)
		}
	}
	mark, err := hash(spec)
	if err != nil {
		return nil, err
	}
	target, err := complete(spec, nb, o, token)
	if err != nil {
		return nil, err
	}
	c := &children{want: rules.Want{Mark: mark, Replicas: 1}}
	if _, stopped := nb.Annotations[api.AnnotationStopped]; stopped {
		c.want.Replicas = 0
	}
	c.set = c.makeSet(nb, spec)
	c.service = makeService(nb, target)
	if err := c.read(); err != nil {
		return nil, fmt.Errorf("invalid spec.template.spec: %w", err)
	}
	if c.want.Full, err = hash(c.set); err != nil {
		return nil, err
	}
	return c, nil
}

// complete adds to the first container and the pod what an image of Kubeflow
// counts on, where the user has not said it, and gives the port that is served.
func complete(spec map[string]any, nb *kubeflow.Notebook, o *Options, token string) (target int64, err error) {
	list, _ := spec["containers"].([]any)
	if len(list) == 0 {
		return 0, fmt.Errorf("spec.template.spec has no containers; a notebook needs one, with a name and an image")
	}
	first, ok := list[0].(map[string]any)
	if !ok {
		return 0, fmt.Errorf("invalid spec.template.spec.containers[0]: must be an object with a name and an image")
	}
	if dir, _ := first["workingDir"].(string); dir == "" {
		first["workingDir"] = homeFolder
	}
	target = port
	if ports, _ := first["ports"].([]any); len(ports) == 0 {
		first["ports"] = []any{map[string]any{"name": portName, "containerPort": int64(port), "protocol": "TCP"}}
	} else if p, ok := ports[0].(map[string]any); ok {
		if n, ok := p["containerPort"].(int64); ok {
			target = n
		}
	}
	env, _ := first["env"].([]any)
	if !slices.ContainsFunc(env, named(envPrefix)) {
		first["env"] = append(slices.Clone(env), map[string]any{"name": envPrefix, "value": Prefix(nb.Namespace, nb.Name)})
	}
	takeToken(first, token)
	throughScheduler(spec)
	if o.FSGroup && spec["securityContext"] == nil {
		spec["securityContext"] = map[string]any{"fsGroup": int64(groupID)}
	}
	return target, nil
}

// Prefix is the path under which a notebook serves, without a slash at its end.
func Prefix(namespace, name string) string { return "/notebook/" + namespace + "/" + name }

// makeSet makes the StatefulSet around a pod's spec. The label on itself, which
// Kubeflow's has not, is how it is selected for watching.
func (c *children) makeSet(nb *kubeflow.Notebook, spec map[string]any) map[string]any {
	labels := map[string]any{}
	for k, v := range nb.Labels {
		labels[k] = v
	}
	labels[api.LabelStatefulSet], labels[api.LabelNotebook] = nb.Name, nb.Name
	notes := map[string]any{}
	for k, v := range nb.Annotations {
		// The mark of a stopped notebook is on no pod, and would make each start a
		// change of the template. The user of a pod is written when that is created.
		if !strings.Contains(k, "kubectl") && !strings.Contains(k, "notebook") && k != api.AnnotationStopped && k != api.AnnotationUser && k != api.AnnotationUserOf {
			notes[k] = v
		}
	}
	notes[api.AnnotationNotebookSpec] = c.want.Mark
	return map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": childMeta(nb),
		"spec": map[string]any{
			"selector":       map[string]any{"matchLabels": map[string]any{api.LabelStatefulSet: nb.Name}},
			"updateStrategy": map[string]any{"type": string(appsv1.OnDeleteStatefulSetStrategyType)},
			"template":       map[string]any{"metadata": map[string]any{"labels": labels, "annotations": notes}, "spec": spec},
		},
	}
}

func makeService(nb *kubeflow.Notebook, target int64) map[string]any {
	return map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": childMeta(nb),
		"spec": map[string]any{
			"type":     string(corev1.ServiceTypeClusterIP),
			"selector": map[string]any{api.LabelStatefulSet: nb.Name},
			"ports": []any{map[string]any{
				"name": "http-" + nb.Name, "port": int64(servicePort), "targetPort": target, "protocol": "TCP",
			}},
		},
	}
}

// childMeta is the metadata of a child: owned by the notebook, so it goes with
// it, and before it where it is deleted in the foreground, as Kubeflow's UI does.
func childMeta(nb *kubeflow.Notebook) map[string]any {
	return map[string]any{
		"name": nb.Name, "namespace": nb.Namespace,
		"labels": map[string]any{api.LabelNotebook: nb.Name},
		"ownerReferences": []any{map[string]any{
			"apiVersion": kubeflow.GroupVersion.String(), "kind": kubeflow.Kind, "name": nb.Name, "uid": string(nb.UID),
			"controller": true, "blockOwnerDeletion": true,
		}},
	}
}

// read fills in what the children say as typed values.
func (c *children) read() error {
	raw, err := stdjson.Marshal(c.set)
	if err != nil {
		return err
	}
	c.typed = &appsv1.StatefulSet{}
	if err := stdjson.Unmarshal(raw, c.typed); err != nil {
		return err
	}
	t := &c.typed.Spec.Template
	c.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: t.Labels, Annotations: t.Annotations}, Spec: t.Spec}
	c.image = t.Spec.Containers[0].Image
	claims := map[string]bool{}
	for i := range t.Spec.Volumes {
		if v := t.Spec.Volumes[i].PersistentVolumeClaim; v != nil {
			claims[v.ClaimName] = true
		}
	}
	c.claims = slices.Sorted(maps.Keys(claims))
	return nil
}

// hash is of what a value says, whatever order its fields have.
func hash(v any) (string, error) {
	raw, err := stdjson.Marshal(v) // maps by key
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), nil
}

// Children are the StatefulSet and the Service of a notebook without a token, but for what depends
// on what is there already: the StatefulSet's replicas and Berth's annotation on
// it. The error is a sentence for the user.
func Children(nb *kubeflow.Notebook, o Options) (set, service map[string]any, err error) {
	c, err := build(nb, &o, "")
	if err != nil {
		return nil, nil, err
	}
	return c.set, c.service, nil
}
