package profile_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/kube/profile"
	"berth.dev/berth/test/golden"
)

// The corpus is files of hubs, in every shape that real ones have, with cases: a user
// and what kubespawner calls their user_options. Beside each file NAME.txtar is
// NAME.kubespawner.json, the pod and the claim that kubespawner 7.1 and the chart's own
// configuration made of it.

// hubCase is one server of a hub.
type hubCase struct {
	Name    string            `json:"name"`
	User    string            `json:"user"`
	Options map[string]string `json:"options"`
}

// made is what kubespawner made of a case.
type made struct {
	Name       string
	Pod, Claim map[string]any
}

func corpus(t *testing.T, test func(t *testing.T, name string, a *txtar.Archive)) {
	t.Helper()
	files, err := filepath.Glob("testdata/corpus/*.txtar")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files of the corpus, %v", len(files), err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, name, a)
		})
	}
}

// part returns a part of an archive, or nil.
func part(a *txtar.Archive, name string) []byte {
	for _, f := range a.Files {
		if f.Name == name {
			return f.Data
		}
	}
	return nil
}

// hubOf reads the values files of an archive, of which the last overrides the others.
func hubOf(t *testing.T, a *txtar.Archive) *profile.File {
	t.Helper()
	var all []profile.Source
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			all = append(all, profile.Source{Name: f.Name, Raw: f.Data})
		}
	}
	last := len(all) - 1
	f, err := profile.Read(all[last].Name, all[last].Raw, all[:last]...)
	if err != nil {
		t.Fatal(err)
	}
	f.Check()
	return f
}

// rows: JH-13 JH-14 JH-15 JH-16 JH-18 JH-19 JH-20 JH-21 JH-22 JH-23 JH-24 JH-38 JH-41
func TestTheCorpusRendersAsKubespawnerDoes(t *testing.T) {
	corpus(t, func(t *testing.T, name string, a *txtar.Archive) {
		f := hubOf(t, a)
		var cases []hubCase
		if data := part(a, "cases.json"); data == nil {
			return // it is refused
		} else if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		raw, err := os.ReadFile("testdata/corpus/" + name + ".kubespawner.json")
		if err != nil {
			t.Fatal(err)
		}
		var upstream []made
		if err := json.Unmarshal(raw, &upstream); err != nil || len(upstream) != len(cases) {
			t.Fatalf("%d of %d cases, %v", len(upstream), len(cases), err)
		}
		for i, c := range cases {
			t.Run(c.Name, func(t *testing.T) { compareCase(t, f, c, upstream[i]) })
		}
	})
}

func compareCase(t *testing.T, f *profile.File, c hubCase, upstream made) {
	t.Helper()
	choices := profile.Choices{User: c.User, Options: map[string]string{}, Unlisted: map[string]string{}}
	for key, value := range c.Options {
		if option, own := strings.CutSuffix(key, "--unlisted-choice"); own {
			choices.Unlisted[option] = value
		} else if key != "profile" {
			choices.Options[key] = value
		}
	}
	p, err := profile.Pick(objects(t, f), c.Options["profile"], nil)
	if err != nil {
		t.Fatal(err)
	}
	nb, claim, _, err := profile.Render(p, choices)
	if err != nil {
		t.Fatal(err)
	}
	var spec map[string]any
	if err := json.Unmarshal(nb.Spec.Template.Spec.Raw, &spec); err != nil {
		t.Fatal(err)
	}
	got := map[string]any{"name": nb.Name, "labels": words(nb.Labels), "annotations": words(nb.Annotations), "spec": spec}
	want := asNotebook(t, upstream.Pod, spec)
	if n, _ := want["name"].(string); len(n) > profile.LongestName {
		delete(want, "name")
		delete(got, "name")
	}
	for _, own := range []string{"berth.dev/notebook-profile", "berth.dev/notebook-token", "berth.dev/max-session"} {
		delete(got["annotations"].(map[string]any), own)
	}
	if diff := cmp.Diff(plain(want), plain(got)); diff != "" {
		t.Errorf("the pod (-kubespawner +berth):\n%s", diff)
	}
	var claimed map[string]any
	if raw, err := json.Marshal(claim); err != nil || json.Unmarshal(raw, &claimed) != nil {
		t.Fatal(err)
	}
	if mounted := mounts(upstream.Pod, upstream.Claim); mounted != (claim != nil) {
		t.Errorf("there is a claim: %v, and kubespawner's pod mounts one: %v", claim != nil, mounted)
	} else if mounted {
		wanted := map[string]any{"metadata": ofHub(upstream.Claim["metadata"]), "spec": upstream.Claim["spec"]}
		delete(claimed, "status")
		delete(claimed, "apiVersion")
		delete(claimed, "kind")
		if diff := cmp.Diff(plain(wanted), plain(claimed)); diff != "" {
			t.Errorf("the claim (-kubespawner +berth):\n%s", diff)
		}
	}
}

func words(m map[string]string) map[string]any {
	out := map[string]any{}
	for key, value := range m {
		out[key] = value
	}
	return out
}

// mounts reports whether a pod has a claim as a volume.
func mounts(pod, claim map[string]any) bool {
	if claim == nil {
		return false
	}
	raw, _ := json.Marshal(pod["spec"].(map[string]any)["volumes"])
	name := claim["metadata"].(map[string]any)["name"]
	return strings.Contains(string(raw), fmt.Sprintf(`"claimName":%q`, name))
}

// hubLabels are labels and annotations that are of the hub's chart, and of no use
// without it.
var hubLabels = []string{
	"app", "component", "release", "chart", "heritage", "helm.sh/chart", "hub.jupyter.org/servername", "hub.jupyter.org/network-access-hub",
	"hub.jupyter.org/kubespawner-version", "hub.jupyter.org/jupyterhub-version",
	"volume.beta.kubernetes.io/storage-class", // before storageClassName
}

// ofHub returns metadata without what is of the hub's chart.
func ofHub(v any) map[string]any {
	out := maps.Clone(v.(map[string]any))
	for _, field := range []string{"labels", "annotations"} {
		all, _ := out[field].(map[string]any)
		kept := map[string]any{}
		for key, value := range all {
			if !slices.Contains(hubLabels, key) && !strings.HasPrefix(key, "app.kubernetes.io/") {
				kept[key] = value
			}
		}
		out[field] = kept
	}
	return out
}

// hubVariables are the variables by which a server reaches its hub.
var hubVariables = []string{
	"JUPYTERHUB_DEFAULT_URL", "JUPYTERHUB_ROOT_DIR", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JUPYTERHUB_CLIENT_ID", "JUPYTERHUB_HOST", "JUPYTERHUB_OAUTH_CALLBACK_URL",
	"JUPYTERHUB_OAUTH_SCOPES", "JUPYTERHUB_OAUTH_ACCESS_SCOPES", "JUPYTERHUB_OAUTH_CLIENT_ALLOWED_SCOPES", "JUPYTERHUB_SERVER_NAME", "JUPYTERHUB_API_URL",
	"JUPYTERHUB_ACTIVITY_URL", "JUPYTERHUB_BASE_URL", "JUPYTERHUB_SERVICE_PREFIX", "JUPYTERHUB_SERVICE_URL", "JUPYTERHUB_PUBLIC_URL", "JUPYTERHUB_PUBLIC_HUB_URL", "JUPYTERHUB_DEBUG",
	"JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED", "JUPYTER_TOKEN_FILE",
}

// asNotebook returns kubespawner's pod with the differences that a notebook without a
// hub has, each of which docs/reference/notebooks.md lists. got is the notebook's pod,
// from which what has no counterpart in a hub is taken.
func asNotebook(t *testing.T, pod, got map[string]any) map[string]any {
	t.Helper()
	meta, spec := ofHub(pod["metadata"]), pod["spec"].(map[string]any)
	delete(spec, "restartPolicy")
	if spec["schedulerName"] == "user-scheduler" {
		delete(spec, "schedulerName")
	}
	if spec["priorityClassName"] == "default-priority" {
		delete(spec, "priorityClassName")
	}
	spec["initContainers"] = without(spec["initContainers"], "block-cloud-metadata")
	spec["volumes"] = without(spec["volumes"], "files")
	want, have := main(spec), main(got)
	want["volumeMounts"] = without(want["volumeMounts"], "files")
	for _, c := range []map[string]any{want, have} {
		env, _ := c["env"].([]any)
		c["env"] = slices.DeleteFunc(slices.Clone(env), func(v any) bool { return slices.Contains(hubVariables, v.(map[string]any)["name"].(string)) })
	}
	if args, _ := want["args"].([]any); len(args) > 0 && args[0] == "jupyterhub-singleuser" {
		mine, _ := have["args"].([]any)
		if len(mine) < 3 || mine[0] != "jupyter" || mine[1] != "lab" || !slices.Equal(mine[len(mine)-len(args)+1:], args[1:]) {
			t.Errorf("command %v, want jupyter lab with %v at its end", mine, args[1:])
		}
		delete(want, "args")
		delete(have, "args")
	}
	if want["workingDir"] == nil { // a notebook's controller would have it in /home/jovyan
		want["workingDir"] = have["workingDir"]
		for _, m := range want["volumeMounts"].([]any) {
			if path := m.(map[string]any)["mountPath"].(string); have["workingDir"] != nil && path == have["workingDir"] && strings.HasPrefix(path, "/home/jovyan") {
				t.Errorf("working folder %v", path)
			}
		}
	}
	return map[string]any{"name": meta["name"], "labels": meta["labels"], "annotations": meta["annotations"], "spec": spec}
}

// main is the container that serves.
func main(spec map[string]any) map[string]any {
	return spec["containers"].([]any)[0].(map[string]any)
}

// without returns a list of objects without those of a name.
func without(list any, name string) []any {
	all, _ := list.([]any)
	return slices.DeleteFunc(slices.Clone(all), func(v any) bool { return v.(map[string]any)["name"] == name })
}

// plain returns a value without what is empty, and with amounts in one form: as JSON of
// kubespawner's has numbers where the API has quantities, and "protocol" is TCP where
// nothing is said.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, each := range v {
			if key == "limits" || key == "requests" {
				each = amounts(each)
			}
			if each = plain(each); each != nil && !(key == "protocol" && each == "TCP") {
				out[key] = each
			}
		}
		if len(out) > 0 {
			return out
		}
		return nil
	case []any:
		var out []any
		for _, each := range v {
			out = append(out, plain(each))
		}
		if out == nil {
			return nil
		}
		return out
	}
	return v
}

// amounts writes quantities as numbers.
func amounts(v any) any {
	list, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for name, n := range list {
		q, err := resource.ParseQuantity(fmt.Sprint(n))
		if f, isNumber := n.(float64); isNumber {
			q, err = resource.ParseQuantity(fmt.Sprintf("%f", f))
		}
		if err != nil {
			out[name] = n
			continue
		}
		out[name] = fmt.Sprintf("%.6f", q.AsApproximateFloat64())
	}
	return out
}

// rows: JH-17 JH-26
func TestTheCorpusIsJudgedAsWritten(t *testing.T) {
	corpus(t, func(t *testing.T, name string, a *txtar.Archive) {
		f := hubOf(t, a)
		var b strings.Builder
		for i := range f.Findings {
			fmt.Fprintf(&b, "%s %s\n", f.Findings[i].Level, f.Findings[i].String())
		}
		golden.File(t, "corpus/"+name+".findings.txt", b.String())
		refused := strings.TrimSpace(string(part(a, "refused.txt")))
		if wrong := strings.Contains(b.String(), "error "); wrong != (refused != "") || !strings.Contains(b.String(), refused) {
			t.Errorf("findings:\n%s\nwant the error %q", b.String(), refused)
		}
	})
}
