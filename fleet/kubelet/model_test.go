package kubelet_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth.dev/berth/fleet/kubelet"
)

func TestASimulatedModelServerAnswers(t *testing.T) {
	c := pod("p")
	c.Ports = []int{8080}
	c.Model = &kubelet.Model{Name: "mnist"}
	rt := &fakeRuntime{cs: []kubelet.Container{c}}
	if kubelet.New(rt, fixed).PodHandler(node, "default", "p", 8080) != nil {
		t.Error("a server that loads its model listens")
	}
	c.Model = &kubelet.Model{Name: "mnist", Ready: true}
	rt.set(c)
	h := kubelet.New(rt, fixed).PodHandler(node, "default", "p", 8080)
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"the state of V1", "GET", "/v1/models/mnist", "", 200, `"state":"AVAILABLE"`},
		{"a prediction of V1", "POST", "/v1/models/mnist:predict", `{"instances": [[1], [2]]}`, 200, `"predictions":[[0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1,0.1],[0.1,`},
		{"a prediction without instances", "POST", "/v1/models/mnist:predict", `{}`, 400, "Missing 'inputs' or 'instances' key"},
		{"a prediction that is no JSON", "POST", "/v1/models/mnist:predict", `{"instances": [`, 400, "JSON parse error"},
		{"another model", "POST", "/v1/models/other:predict", `{"instances": []}`, 404, "model other is not served here; this one is mnist"},
		{"another verb", "POST", "/v1/models/mnist:explain", `{}`, 400, "mnist:predict"},
		{"the readiness of V2", "GET", "/v2/health/ready", "", 200, `"ready":true`},
		{"an inference of V2", "POST", "/v2/models/mnist/infer", `{"inputs": [], "id": "7"}`, 200, `"id":"7"`},
		{"the models of OpenAI", "GET", "/openai/v1/models", "", 200, `"id":"mnist"`},
		{"a chat", "POST", "/openai/v1/chat/completions", `{"messages": [{"role": "user", "content": "hello"}]}`, 200, "simulated by Berth"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, strings.NewReader(tt.body)))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.says)
			}
			if w.Code == http.StatusOK && !strings.Contains(w.Header().Get("Server"), "simulated") {
				t.Error("the answer does not say that it is simulated")
			}
		})
	}
}

func TestAModelFailsAsItIsTold(t *testing.T) {
	c := pod("p")
	c.Ports = []int{8080}
	c.Model = &kubelet.Model{Name: "mnist", Ready: true, Fails: 1}
	h := kubelet.New(&fakeRuntime{cs: []kubelet.Container{c}}, fixed).PodHandler(node, "default", "p", 8080)
	for method, want := range map[string]int{http.MethodPost: 500, http.MethodGet: 200} {
		w := httptest.NewRecorder()
		path := "/v1/models/mnist"
		if method == http.MethodPost {
			path += ":predict"
		}
		h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(`{"instances": [[1]]}`)))
		if w.Code != want || want == 500 && !strings.Contains(w.Body.String(), "the model fails, as the annotation berth.dev/simulate says") {
			t.Errorf("%s %s answers %d: %s", method, path, w.Code, w.Body.String())
		}
	}
}

func TestATransformerPassesRequestsOn(t *testing.T) {
	model := pod("m")
	model.Model = &kubelet.Model{Name: "mnist", Ready: true}
	model.Ports = []int{8080}
	front := pod("t")
	front.Ports = []int{8080}
	for _, tt := range []struct {
		name, calls string
		asked       string // the Service, as its namespace, name, and port
		status      int
		says        string
	}{
		{"by the name in a namespace", "mnist-predictor.ml", "ml mnist-predictor 80", 200, `"predictions":`},
		{"by the whole name and a port", "mnist-predictor.ml.svc.cluster.local:8080", "ml mnist-predictor 8080", 200, `"predictions":`},
		{"by the name in the namespace of the pod", "mnist-predictor", "default mnist-predictor 80", 200, `"predictions":`},
		{"a model that is not there", "other.ml", "ml other 80", 502, "the transformer finds no model at other.ml"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			front.Model = &kubelet.Model{Name: "mnist", Ready: true, Calls: tt.calls}
			s, asked := kubelet.New(&fakeRuntime{cs: []kubelet.Container{model, front}}, fixed), ""
			s.Service = func(namespace, name, port string) http.Handler {
				if asked = namespace + " " + name + " " + port; name != "mnist-predictor" {
					return nil
				}
				return s.PodHandler(node, "default", "m", 8080)
			}
			w := httptest.NewRecorder()
			s.PodHandler(node, "default", "t", 8080).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/v1/models/mnist:predict", strings.NewReader(`{"instances": [[1]]}`)))
			if asked != tt.asked || w.Code != tt.status || !strings.Contains(w.Body.String(), tt.says) || !strings.Contains(w.Header().Get("Via"), "t (Berth: a simulated transformer") {
				t.Errorf("the transformer asks %s, and answers %d %s (Via: %s)", asked, w.Code, w.Body, w.Header().Get("Via"))
			}
		})
	}
}
