package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"berth.dev/berth/api"
	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli"
	"berth.dev/berth/cli/cluster"
	"berth.dev/berth/cli/process"
)

// hostile is what people may write where the API takes any text: it would set the
// title, clear the screen, begin a line and a cell of its own, and hide and reorder
// letters. shown is how its beginning is shown.
const (
	hostile = "ev\x1b]0;il\x07\x1b[2J\r\u009b31m\u202e\u200b\ufdd0\x7f\nFORGED\tline\u2028"
	shown   = `ev\x1b]0;il`
)

// poisoned is an object with that text at the end of each field that takes any.
func poisoned(o runtime.Object) runtime.Object {
	raw, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		panic(err)
	}
	poison(fields)
	if raw, err = json.Marshal(fields); err != nil {
		panic(err)
	}
	out := reflect.New(reflect.TypeOf(o).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(raw, out); err != nil {
		panic(err)
	}
	return out
}

// free are the names of fields, and of annotations, that take any text.
var free = map[string]bool{
	"message": true, "image": true, "value": true, "product": true, "nodeName": false,
	api.AnnotationCreator: true, api.AnnotationHubUser: true, api.AnnotationNotebookStoppedFor: true,
	api.AnnotationNotebookProfile: true, api.AnnotationPrice: true, api.AnnotationDataset: true,
}

func poison(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, each := range v {
			text, isText := each.(string)
			var list any
			switch {
			case isText && free[key]:
				v[key] = text + hostile
			case isText && json.Unmarshal([]byte(text), &list) == nil && strings.HasPrefix(text, "["): // an inventory
				poison(list)
				raw, _ := json.Marshal(list)
				v[key] = string(raw)
			default:
				poison(each)
			}
		}
	case []any:
		for _, each := range v {
			poison(each)
		}
	}
}

// hostileStage is a cluster whose people write such texts, and whose admission
// answers with one.
func hostileStage(t *testing.T) *stage {
	t.Helper()
	var objects []runtime.Object
	for _, o := range looked() {
		if p, isPod := o.(*v1.Pod); isPod {
			p.Annotations[api.AnnotationHubUser] = "u"
			p.Spec.Containers[0].Image = "i"
			for i := range p.Status.Conditions {
				p.Status.Conditions[i].Message = "m"
			}
		}
		if n, isNode := o.(*v1.Node); isNode {
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "k", Value: "v", Effect: v1.TaintEffectNoSchedule})
			n.Annotations[api.AnnotationFaults] = "[\"" + strings.ReplaceAll(shown, `\`, "") + "\"]"
		}
		objects = append(objects, poisoned(o))
	}
	for i, about := range []v1.ObjectReference{{Kind: "Pod", Namespace: "vision", Name: "resnet-9"}, {Kind: "Notebook", Namespace: "research", Name: "big"}} {
		objects = append(objects, &v1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: about.Namespace, Name: "e" + string(rune('a'+i))}, InvolvedObject: about, Type: "Warning",
			Reason: "Failed" + hostile, Message: hostile, LastTimestamp: metav1.NewTime(now.Add(-time.Minute)), Count: 1,
		})
	}
	objects = append(objects, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "borrows"}, InvolvedObject: v1.ObjectReference{Kind: "Queue", Name: "all"},
		Reason: "Borrows", Message: hostile, LastTimestamp: metav1.NewTime(now.Add(-time.Minute)),
	})
	for i, name := range []string{"mnist", "mnist", "wrong"} {
		r := revisionOf(name, fmt.Sprint(i, "abcdef"), int64(i+1), "pvc://models/"+hostile, i == 0)
		r.Annotations[api.AnnotationServingSpec] = hostile
		objects = append(objects, r)
	}
	s := newStage(t, append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "research"}})...)
	for _, u := range books() {
		poison(u.Object)
		if err := s.dynamic.Tracker().Create(kubeflow.Resource, u, u.GetNamespace()); err != nil {
			t.Fatal(err)
		}
	}
	addJobs(t, s, func(u *unstructured.Unstructured) { poison(u.Object) })
	addServices(t, s, func(u *unstructured.Unstructured) { poison(u.Object) })
	queue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "berth.dev/v1alpha1", "kind": "Queue", "metadata": map[string]any{"name": "all"},
		"spec": map[string]any{"default": true, "quotas": []any{map[string]any{"gpus": hostile, "nominal": "1"}, map[string]any{"gpus": "All", "nominal": "0"}}},
	}}
	if err := s.dynamic.Tracker().Add(queue); err != nil {
		t.Fatal(err)
	}
	book := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "berth.dev/v1alpha1", "kind": "PriceBook", "metadata": map[string]any{"name": "all"},
		"spec": map[string]any{"currency": hostile, "prices": []any{map[string]any{"name": hostile, "perHour": 1.0}}},
	}}
	if err := s.dynamic.Tracker().Add(book); err != nil {
		t.Fatal(err)
	}
	refuse := func(a clienttesting.Action) (bool, runtime.Object, error) {
		return strings.Contains(a.GetVerb(), "create") || a.GetVerb() == "patch" || a.GetVerb() == "update" || a.GetVerb() == "delete", nil,
			errors.New("admission webhook denied the request: " + hostile)
	}
	s.dynamic.PrependReactor("*", "*", refuse)
	return s
}

// hostileCase is a call of a command; the text must come to the screen where it says so.
type hostileCase struct {
	args  string
	shows bool
}

// hostileCases are calls of each command that can be run, by its path.
func hostileCases(dir string) map[string][]hostileCase {
	values, good, csv := filepath.Join(dir, "values.yaml"), filepath.Join(dir, "good.yaml"), filepath.Join(dir, "pods.csv")
	return map[string][]hostileCase{
		"berth":                       {{"", false}},
		"berth agent":                 {{"agent --x" + hostile, false}},
		"berth completion":            {{"completion " + hostile, true}},
		"berth notebook":              {{"notebook " + hostile, true}},
		"berth profiles":              {{"profiles " + hostile, true}},
		"berth sim":                   {{"sim " + hostile, true}},
		"berth completion bash":       {{"completion bash", false}},
		"berth completion fish":       {{"completion fish", false}},
		"berth completion powershell": {{"completion powershell", false}},
		"berth completion zsh":        {{"completion zsh", false}},
		"berth completion install":    {{"completion install --dir " + filepath.Join(dir, "bin"), false}},
		"berth controller":            {{"controller --kubeconfig " + filepath.Join(dir, "config"), true}, {"controller --notebooks " + hostile, true}, {"controller --serving-domain " + hostile + " --serving-route ingress", true}, {"controller --serving-domain example.com --serving-route " + hostile, true}},
		"berth activator":             {{"activator --pod-name x --pod-ip " + hostile, true}, {"activator --pod-name x --pod-ip 10.1.2.3 --kubeconfig " + filepath.Join(dir, "config"), true}},
		"berth meter":                 {{"meter --data x --kubeconfig " + filepath.Join(dir, "config"), true}, {"meter --data x --smallest-cpu " + hostile, true}, {"meter --data x --prometheus " + hostile, true}, {"meter --data x --remote-write " + hostile, true}, {"meter --data x --otlp " + hostile, true}, {"meter --data x --url-credentials " + hostile, true}},
		"berth scheduler":             {{"scheduler --kubeconfig " + filepath.Join(dir, "config"), true}},
		"berth up":                    {{"up --dir " + filepath.Join(dir, "up"), true}},
		"berth down":                  {{"down --dir " + filepath.Join(dir, hostile), true}},
		"berth status":                {{"status --dir " + filepath.Join(dir, "data"), true}},
		"berth doctor":                {{"doctor", true}},
		"berth doctor node":           {{"doctor node --x" + hostile, false}},
		"berth doctor spawn":          {{"doctor spawn eve -n none" + hostile, true}},
		"berth can":                   {{"can -f " + filepath.Join(dir, hostile), true}, {"can -f " + filepath.Join(dir, "queues.yaml"), true}, {"can -f " + hostile + " -o name", false}},
		"berth lint":                  {{"lint -f " + filepath.Join(dir, hostile), true}, {"lint -f " + hostile + " -o name", false}},
		"berth gpus":                  {{"gpus -o wide", true}, {"gpus", true}, {"gpus -o custom-columns=U:.holders[*].user,P:.product", true}},
		"berth top":                   {{"top -o wide", true}, {"top --sort-by " + hostile, true}, {"top --filter no-such-row", false}},
		"berth nodes":                 {{"nodes --all -o wide", true}, {"nodes --view allocation", false}, {"nodes -l a=b,,=" + hostile, true}},
		"berth cost":                  {{"cost --by " + hostile, true}, {"cost --since " + hostile, true}, {"cost", false}},
		"berth cost verify":           {{"cost verify", false}},
		"berth audit":                 {{"audit --since " + hostile, true}, {"audit", false}},
		"berth history":               {{"history x --since " + hostile, true}},
		"berth idle":                  {{"idle --nudge --webhook " + hostile, true}, {"idle", false}},
		"berth alerts":                {{"alerts -o " + hostile, true}, {"alerts --pending", false}},
		"berth query":                 {{"query " + hostile + " --since " + hostile, true}, {"query up --since " + hostile, true}},
		"berth budget":                {{"budget -o " + hostile, true}, {"budget", false}},
		"berth report":                {{"report --format " + hostile, true}, {"report", false}},
		"berth price":                 {{"price " + hostile, true}},
		"berth price explain":         {{"price explain no" + hostile, true}},
		"berth price list":            {{"price list", true}},
		"berth price rerate":          {{"price rerate --reason x --since " + hostile, true}},
		"berth price set":             {{"price set no" + hostile + " 5", true}, {"price set a " + hostile, true}},
		"berth queue":                 {{"queue", true}, {"queue " + hostile, true}},
		"berth queue check":           {{"queue check -f " + filepath.Join(dir, "queues.yaml"), true}},
		"berth queue accuracy":        {{"queue accuracy all", false}, {"queue accuracy no" + hostile, true}},
		"berth queue history":         {{"queue history", true}, {"queue history no" + hostile, true}},
		"berth queue import":          {{"queue import -f " + filepath.Join(dir, "foreign.yaml"), true}},
		"berth queue show":            {{"queue show all", true}, {"queue show no" + hostile, true}},
		"berth explain":               {{"explain c12", false}, {"explain " + hostile, true}},
		"berth why":                   {{"why -A", true}, {"why -n vision resnet-9", true}, {"why -n vision nothing" + hostile, true}},
		"berth notebook create":       {{"notebook create new -n research --image a/b:1", true}, {"notebook create bad" + hostile, true}},
		"berth notebook delete":       {{"notebook delete big -n research", true}},
		"berth notebook list":         {{"notebook list -A -o wide", true}},
		"berth notebook open":         {{"notebook open off -n research", true}},
		"berth notebook start":        {{"notebook start off -n research", true}},
		"berth notebook stop":         {{"notebook stop big -n research", true}},
		"berth notebook why":          {{"notebook why big -n research", true}, {"notebook why off -n research", true}},
		"berth profiles claims":       {{"profiles claims " + good + " --for u" + hostile, true}},
		"berth profiles import":       {{"profiles import " + values, true}},
		"berth profiles lint":         {{"profiles lint " + values, true}},
		"berth profiles list":         {{"profiles list " + values, false}, {"profiles list " + good, true}, {"profiles list " + good + " -o wide", true}},
		"berth profiles render":       {{"profiles render " + values + " --profile x" + hostile, true}},
		"berth sim break":             {{"sim break " + hostile + " gpu-t4-1", true}},
		"berth sim heal":              {{"sim heal " + hostile + " gpu-t4-1", true}},
		"berth sim list":              {{"sim list", false}},
		"berth simulate":              {{"simulate --nodes " + cutNodes + " --pods " + csv + " --seeds 1", true}, {"simulate --nodes " + cutNodes + " --pods " + cutPods + " --policy " + hostile, true}},
		"berth notebook to-job":       {{"notebook to-job big -n research -- x", true}, {"notebook to-job no" + hostile + " -- x", true}},
		"berth service":               {{"service " + hostile, true}},
		"berth service create":        {{"service create new -n vision --format onnx", true}, {"service create new --format onnx --model x" + hostile, true}},
		"berth service delete":        {{"service delete mnist -n vision", true}},
		"berth service list":          {{"service list -A -o wide", true}},
		"berth service logs":          {{"service logs no" + hostile, true}, {"service logs asr -n speech", true}},
		"berth service open":          {{"service open no" + hostile, true}, {"service open off -n vision", false}},
		"berth service predict":       {{"service predict no -f x" + hostile, true}},
		"berth service promote":       {{"service promote mnist -n vision", false}, {"service promote no" + hostile, true}},
		"berth service rollback":      {{"service rollback mnist -n vision --to x" + hostile, true}, {"service rollback mnist -n vision", true}},
		"berth service show":          {{"service show wrong -n vision", true}},
		"berth service size":          {{"service size no" + hostile, true}, {"service size mnist -n vision", false}},
		"berth service start":         {{"service start off -n vision", true}},
		"berth service stop":          {{"service stop mnist -n vision", true}},
		"berth service why":           {{"service why mnist -n vision", true}},
		"berth fetch":                 {{"fetch x" + hostile + " " + dir, true}, {"fetch http://127.0.0.1:1/m x --max-size " + hostile, true}},
		"berth train":                 {{"train " + hostile, true}},
		"berth train create":          {{"train create new -n vision --image a/b:1", true}, {"train create new --image a --framework " + hostile, true}},
		"berth train delete":          {{"train delete bert -n vision", true}},
		"berth train list":            {{"train list -A -o wide", true}, {"train list -n vision", false}},
		"berth train logs":            {{"train logs no" + hostile, true}},
		"berth train resume":          {{"train resume off -n vision", true}},
		"berth train scale":           {{"train scale off --replicas 4 -n vision", true}},
		"berth train show":            {{"train show mnist -n vision", true}},
		"berth train stop":            {{"train stop bert -n vision", true}},
		"berth train to-service":      {{"train to-service no" + hostile, true}, {"train to-service mnist -n vision --path x" + hostile, false}},
		"berth train why":             {{"train why tfjob/both -n vision", true}},
		"berth version":               {{"version", false}, {"version -o " + hostile, true}},
	}
}

// hostileFiles are files that others wrote.
func hostileFiles(t *testing.T, dir string) {
	t.Helper()
	inYAML, inJSON := strconv.QuoteToASCII(hostile), strings.ReplaceAll(strings.ReplaceAll(strconv.QuoteToASCII(hostile), `\x`, `\u00`), `\a`, `\u0007`)
	write(t, filepath.Join(dir, "config"), kubeconfig)
	write(t, filepath.Join(dir, "values.yaml"), "singleuser:\n  image: {name: base, tag: latest}\n  profileList:\n"+
		"  - {display_name: "+inYAML+", description: "+inYAML+", kubespawner_override: {image: "+inYAML+", "+inYAML+": 1}}\n"+
		"  - {display_name: b, kubespawner_override: {cpu_limit: "+inYAML+"}}\n")
	write(t, filepath.Join(dir, "good.yaml"), "singleuser:\n  image: {name: base, tag: latest}\n  profileList:\n"+
		"  - {display_name: "+inYAML+", slug: a, description: "+inYAML+", allowed_groups: ["+inYAML+"], kubespawner_override: {environment: {A: "+inYAML+"}}}\n"+
		"  - {display_name: "+inYAML+", slug: b}\n")
	write(t, filepath.Join(dir, "foreign.yaml"), "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: "+inYAML+", namespace: a}\nspec: {scopes: "+inYAML+", hard: {requests.nvidia.com/gpu: 1}}\n")
	write(t, filepath.Join(dir, "queues.yaml"), "apiVersion: berth.dev/v1alpha1\nkind: Queue\nmetadata: {name: "+inYAML+"}\nspec: {}\n")
	write(t, filepath.Join(dir, "pods.csv"), "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,"+strings.ReplaceAll(hostile, "\n", "")+",1,1,1000\n")
	if err := os.MkdirAll(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "data", "state.json"), `{"kind":"berth data folder","format":1,"fleet":`+inJSON+`,"hostProcesses":[`+inJSON+`]}`)
}

// TestHostileTexts shows texts of others by every command: none acts on the terminal,
// and none begins a line. A command without a case fails it.
func TestHostileTexts(t *testing.T) {
	s := hostileStage(t)
	dir := t.TempDir()
	hostileFiles(t, dir)
	fails := errors.New("it ended: " + hostile)
	var out, errs bytes.Buffer
	options := cli.Options{
		In: &bytes.Buffer{}, Out: &out, Err: &errs, Connect: s.connect, Now: func() time.Time { return now }, BusyPatience: time.Minute,
		Dynamic: func(*rest.Config) (dynamic.Interface, error) { return s.dynamic, nil },
		Up: func(_ context.Context, o cluster.UpOptions) error {
			o.Step("step", hostile, time.Second)
			return fails
		},
		Scheduler:  func(context.Context, process.SchedulerOptions) error { return fails },
		Controller: func(context.Context, process.ControllerOptions) error { return fails },
		Meter:      func(context.Context, process.MeterOptions) error { return fails },
		Activator:  func(context.Context, process.ActivatorOptions) error { return fails },
		Exec:       func(string, []string, []string) error { return fails },
	}
	cases := hostileCases(dir)
	for _, path := range runnable(cli.New(options)) {
		if len(cases[path]) == 0 {
			t.Errorf("%s has no case: a command that is new needs one", path)
		}
		for _, c := range cases[path] {
			out.Reset()
			errs.Reset()
			cli.Main(append([]string{"berth"}, fields(c.args)...), options)
			text := out.String() + errs.String()
			judge(t, c.args, text)
			if strings.Contains(text, shown) != c.shows {
				t.Errorf("berth %q: whether the text is on the screen is not %v:\n%s", c.args, c.shows, text)
			}
		}
		delete(cases, path)
	}
	for path := range cases {
		t.Errorf("there is no command %s any more", path)
	}
}

// fields are the arguments of a call, separated by blanks alone.
func fields(args string) []string {
	if args == "" {
		return nil
	}
	return strings.Split(args, " ")
}

// runnable are the paths of the commands that do something.
func runnable(c *cobra.Command) []string {
	var out []string
	if c.Runnable() && c.Name() != "help" {
		out = append(out, c.CommandPath())
	}
	for _, sub := range c.Commands() {
		out = append(out, runnable(sub)...)
	}
	return out
}

// judge says what of a text would act on a terminal, or looks like a line of Berth's.
func judge(t *testing.T, args, text string) {
	t.Helper()
	for i, r := range text {
		if r == utf8.RuneError || r != '\n' && r != '\t' && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			t.Errorf("berth %q: %U at %d comes to the terminal:\n%q", args, r, i, text)
			return
		}
	}
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "FORGED") {
			t.Errorf("berth %q: somebody's text begins a line:\n%s", args, text)
			return
		}
	}
}

// TestExactOutput prints values for programs as they are: escaped by JSON and YAML alone.
func TestExactOutput(t *testing.T) {
	s := hostileStage(t)
	for _, format := range []string{"json", "yaml", "jsonpath={.items[*].product}"} {
		got := s.ok("gpus", "-o", format)
		switch format {
		case "json":
			var list struct{ Items []struct{ Product string } }
			if err := json.Unmarshal([]byte(got), &list); err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(list.Items[0].Product, hostile) {
				t.Errorf("the product is %q, want one that ends with %q", list.Items[0].Product, hostile)
			}
		case "yaml":
			if !strings.Contains(got, `\e]0;il`) && !strings.Contains(got, `\x1B]0;il`) && !strings.Contains(got, `\x1b]0;il`) {
				t.Errorf("YAML has lost the text:\n%.500s", got)
			}
		default:
			if !strings.Contains(got, hostile) {
				t.Errorf("a template's values are changed: %.200q", got)
			}
		}
	}
}

// TestAllIsPrintedByOnePlace holds the commands to printf and its like, by which no text
// of others begins a line.
func TestAllIsPrintedByOnePlace(t *testing.T) {
	may := map[string]bool{ // where it is not text for people, or whole cells
		"term/print.go": true, "term/yaml.go": true, "term/columns.go io.WriteString": true,
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	below, err := filepath.Glob("*/*.go") // of the nouns; packages below them write to no terminal
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, below...)
	seen := 0
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || may[name] {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch fun := call.Fun.(type) {
			case *ast.Ident:
				if fun.Name == "Printf" || fun.Name == "PrintLine" { // in package term
					seen++
				}
			case *ast.SelectorExpr:
				of, _ := fun.X.(*ast.Ident)
				if of == nil {
					return true
				}
				what := of.Name + "." + fun.Sel.Name
				if what == "term.Printf" || what == "term.PrintLine" {
					seen++
				}
				if (strings.HasPrefix(what, "fmt.Fprint") || strings.HasPrefix(what, "fmt.Print") || what == "io.WriteString") && !may[name+" "+what] {
					t.Errorf("%s calls %s: use term.Printf, PrintLine, PrintBlock or a table", name, what)
				}
			}
			return true
		})
	}
	if seen < 50 {
		t.Errorf("%d calls of printf and printLine were seen; this test looks at the wrong place", seen)
	}
}

// TestOutputIsGuarded writes past printf, as cobra does.
func TestOutputIsGuarded(t *testing.T) {
	var out, errs bytes.Buffer
	root := cli.New(cli.Options{Out: &out, Err: &errs})
	root.PrintErr(hostile)
	root.SetArgs([]string{"--help"})
	root.Long = hostile
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{out.String(), errs.String()} {
		if strings.ContainsAny(text, "\x1b\u202e\r") || !strings.Contains(text, shown) {
			t.Errorf("it writes %q", text)
		}
	}
}
