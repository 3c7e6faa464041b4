package fleet

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/fleet/kubelet"
	"berth.dev/berth/kube/serving"
)

// Defaults of a simulated model server.
const (
	modelPort = 8080
	// tritonPort is where Triton has its metrics.
	tritonPort = 8002
	modelLoad  = 500 * time.Millisecond
	modelTime  = 20 * time.Millisecond // of an answer
	filesLook  = time.Second           // between looks for a model that is absent
)

// Model is how a container plays a model server.
type Model struct {
	Name   string
	Load   time.Duration // from its start until it answers
	Takes  time.Duration // for an answer
	Fails  float64       // the part of the answers that are errors
	Slots  int           // requests that it works on at once; 0 is any number
	Absent bool          // the server finds no model, and looks for one again and again
	Calls  string        // the host whose model it asks, if it is a transformer

	server  *modelServer // nil is one that is taken to find its model
	metrics string       // as kubelet.Model has them
}

// modelServer is what a server reads, and what it does without.
type modelServer struct {
	word  string         // of its command, arguments, or image
	reads *regexp.Regexp // a path below the model's folder
	says  string         // to its log; NAME is the model's name
	ends  bool           // with exit code 1; else it waits
}

// modelServers say the words of the programs: file_system_storage_path_source.cc of TensorFlow Serving, and the exceptions of KServe's
// Python servers.
var modelServers = []modelServer{
	{
		word: "tensorflow_model_server", reads: regexp.MustCompile(`^\d+/saved_model\.pb(txt)?$`),
		says: "W tensorflow_serving/sources/storage_path/file_system_storage_path_source.cc:268] No versions of servable NAME found under base path /mnt/models. Did you forget to name your leaf directory as a number (eg. '/1/')?",
	},
	{
		word: "tritonserver", reads: regexp.MustCompile(`^[^/]+/\d+/.`), ends: true,
		says: "E model_repository_manager.cc:1307] Poll failed for model directory '/mnt/models': at least one version must be available under the version policy of model 'NAME'",
	},
	{word: "sklearnserver", reads: regexp.MustCompile(`^[^/]+\.(joblib|pkl|pickle)$`), ends: true, says: "kserve.errors.ModelMissingError: /mnt/models"},
	{word: "xgbserver", reads: regexp.MustCompile(`^[^/]+\.(bst|json|ubj)$`), ends: true, says: "kserve.errors.ModelMissingError: /mnt/models"},
	{word: "lgbserver", reads: regexp.MustCompile(`^[^/]+\.bst$`), ends: true, says: "kserve.errors.ModelMissingError: /mnt/models"},
}

// servesModel reports whether a container is the server of an InferenceService.
func servesModel(pod *v1.Pod, c *v1.Container) bool {
	return pod.Labels[api.LabelInferenceService] != "" && c.Name == "kserve-container" && !initContainer(pod, c.Name)
}

// playModel makes a plan that of a model server of which nothing is asked: it holds the memory of its GPUs.
func playModel(plan *Plan, pod *v1.Pod, c *v1.Container) {
	m := &Model{Name: pod.Labels[api.LabelInferenceService], Load: modelLoad, Takes: modelTime}
	words := strings.Join(slices.Concat(c.Command, c.Args, []string{c.Image}), " ")
	for i := range modelServers {
		if strings.Contains(words, modelServers[i].word) {
			m.server = &modelServers[i]
			break
		}
	}
	switch {
	case strings.Contains(words, "tritonserver"):
		m.metrics = kubelet.MetricsTriton
	case strings.Contains(words, "huggingfaceserver") || strings.Contains(words, "vllm"):
		m.metrics = kubelet.MetricsVLLM
	}
	if serving.IsTransformer(pod.Labels) {
		m.server, m.Calls = nil, argument(slices.Concat(c.Command, c.Args), "--predictor_host")
	}
	plan.Model, plan.UtilizationRatio, plan.Curve = m, 0, nil
}

// argument is the value of an argument of a program, as the next word or after "="; "" is that there is none.
func argument(words []string, name string) string {
	for i, word := range words {
		if value, ok := strings.CutPrefix(word, name+"="); ok {
			return value
		}
		if word == name && i+1 < len(words) {
			return words[i+1]
		}
	}
	return ""
}

// withFiles is the plan of a model server that finds these files in the folder of its model. known is false where nothing is known of
// the folder: a model is there then.
func (plan Plan) withFiles(list []string, known bool) Plan {
	s := plan.Model.server
	if s == nil || !known || slices.ContainsFunc(list, s.reads.MatchString) {
		return plan
	}
	line := Step{Text: strings.ReplaceAll(s.says, "NAME", plan.Model.Name)}
	if s.ends {
		plan.Forever, plan.Duration, plan.ExitCode, plan.Steps, plan.Every = false, time.Second, 1, []Step{line}, 0
		return plan
	}
	m := *plan.Model
	m.Absent = true
	plan.Model, plan.Steps, plan.Every = &m, []Step{line}, filesLook
	return plan
}

// files are those that volumes are said to have.
type files struct {
	mu      sync.Mutex
	byClaim map[string]string // guarded by mu; by namespace and name
}

// note remembers what a claim says of the files of its volume.
func (f *files) note(c *v1.PersistentVolumeClaim) {
	text, ok := c.Annotations[api.AnnotationSimulatedFiles]
	f.mu.Lock()
	defer f.mu.Unlock()
	if key := c.Namespace + "/" + c.Name; ok {
		f.byClaim[key] = text
	} else {
		delete(f.byClaim, key)
	}
}

// of returns the files below the folder of a container's model, by the claim that is mounted there; known is false if that says nothing.
func (f *files) of(pod *v1.Pod, c *v1.Container) (list []string, known bool) {
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name != m.Name || m.MountPath != "/mnt/models" || v.PersistentVolumeClaim == nil {
				continue
			}
			f.mu.Lock()
			text, ok := f.byClaim[pod.Namespace+"/"+v.PersistentVolumeClaim.ClaimName]
			f.mu.Unlock()
			for file := range strings.FieldsSeq(text) {
				if below, inside := strings.CutPrefix(path.Clean("/"+file), path.Join("/", m.SubPath, "")+"/"); inside {
					list = append(list, below)
				} else if m.SubPath == "" {
					list = append(list, strings.TrimPrefix(path.Clean("/"+file), "/"))
				}
			}
			return list, ok
		}
	}
	return nil, false
}

// lookForModel has a server that found no model look again, as those of TensorFlow do each second.
func (p *pod) lookForModel(c *container, now time.Time) {
	if m := c.plan.Model; m == nil || !m.Absent || !c.running() {
		return
	}
	plan := p.node.plan(p, c)
	if plan.Model == nil || plan.Model.Absent {
		p.wake(now.Add(filesLook))
		return
	}
	plan.Model.Load += now.Sub(c.begun) // it loads from now on
	c.plan = plan
}

// model is what the server in a container serves at a moment, or nil.
func (f *Fleet) model(c *container, now time.Time) *kubelet.Model {
	m := c.plan.Model
	if m == nil {
		return nil
	}
	if c.asked == nil {
		c.asked = kubelet.NewAsked(m.Slots, f.now)
	}
	return &kubelet.Model{Name: m.Name, Ready: c.isReady(now), Takes: m.Takes, Fails: m.Fails, Asked: c.asked, Metrics: m.metrics, Calls: m.Calls}
}

// askedOf is how busy requests keep the server in a container.
func askedOf(c *container) float64 {
	if c.asked == nil {
		return 0
	}
	return c.asked.Busy()
}
