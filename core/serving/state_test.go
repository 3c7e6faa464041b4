package serving_test

import (
	"strings"
	"testing"

	"berth.dev/berth/core/serving"
)

func TestStateOf(t *testing.T) {
	llm := &serving.Service{Name: "llm", GPUs: true, Rollout: serving.RolloutWait}
	noGPU := "no node has a free GPU"
	broken := &serving.Fault{Reason: serving.FaultLoad, Message: "the model does not fit"}
	for _, tt := range []struct {
		name   string
		seen   serving.Seen
		ready  serving.Truth
		reason string
		says   string
		model  string // transition, active, and target state
	}{
		{"a replica that answers is ready", serving.Seen{Service: llm, Wanted: 1, Ready: 1}, serving.True, "MinimumReplicasAvailable", "1 of 1 replica ready", "UpToDate Loaded Loaded"},
		{"none is ready as long as one waits for a GPU", serving.Seen{Service: llm, Wanted: 1, Waits: noGPU}, serving.False, "WaitingForGPU", "0 of 1 replica ready: no node has a free GPU", "InProgress Pending Pending"},
		{"one that loads says so", serving.Seen{Service: llm, Wanted: 2, Starts: "loading the model"}, serving.False, "Starting", "0 of 2 replicas ready: loading the model", "InProgress Loading Loading"},
		{"zero replicas are ready: the next request is answered", serving.Seen{Service: llm, Why: "no requests for 5m0s"}, serving.True, "ScaledToZero", "no requests for 5m0s; the next request starts a replica", "UpToDate Standby "},
		{"some of several are ready", serving.Seen{Service: llm, Wanted: 3, Ready: 2, Waits: noGPU}, serving.True, "MinimumReplicasAvailable", "2 of 3 replicas ready; the other waits: no node has a free GPU", "UpToDate Loaded Loaded"},
		{"a replica that moves is named with the reason", serving.Seen{Service: llm, Wanted: 1, Ready: 1, Leaves: "node a is cordoned"}, serving.True, "MinimumReplicasAvailable", "1 of 1 replica ready; a replica moves, as node a is cordoned", "UpToDate Loaded Loaded"},
		{"one that has no room to move to says for what it waits", serving.Seen{Service: llm, Wanted: 1, Ready: 1, Leaves: "node a is cordoned", Waits: noGPU}, serving.True, "MinimumReplicasAvailable", "a replica is to move, as node a is cordoned, and the one for its place waits: no node has a free GPU", "UpToDate Loaded Loaded"},
		{"a fault of the model is named", serving.Seen{Service: llm, Wanted: 1, Fault: broken}, serving.False, "ModelLoadFailed", "the model does not fit", "BlockedByFailedLoad FailedToLoad FailedToLoad"},
		{"a fault of the new revision leaves the old one ready", serving.Seen{Service: llm, Wanted: 1, Ready: 1, Rolling: true, Fault: broken}, serving.True, "MinimumReplicasAvailable", "1 of 1 replica ready of the revision before; the new one: the model does not fit", "BlockedByFailedLoad Loaded FailedToLoad"},
		{
			// A rollout on a full cluster stands without a word (serving-progressive-rollout#200).
			"a rollout that waits for a GPU says how to go on without one",
			serving.Seen{Service: llm, Wanted: 1, Ready: 1, Rolling: true, Waits: noGPU},
			serving.True, "RollingOut",
			"the new one waits: no node has a free GPU. To use the GPU of an old replica for it, set the annotation berth.dev/rollout: stop-first", "InProgress Loaded Pending",
		},
		{"a refused spec is named", serving.Seen{Service: llm, Refused: &serving.Fault{Reason: serving.FaultNoRuntime, Message: "no runtime serves format x"}}, serving.False, "NoSupportingRuntime", "no runtime serves format x", "InvalidSpec FailedToLoad "},
		{"a stopped service says how it is started", serving.Seen{Service: &serving.Service{Name: "llm", Stopped: true}, Waits: noGPU}, serving.False, "Stopped", "`berth service start llm`", "UpToDate Standby "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serving.StateOf(&tt.seen)
			if s.Predictor.Is != tt.ready || s.Predictor.Reason != tt.reason || !strings.Contains(s.Predictor.Message, tt.says) {
				t.Errorf("it says %+v", s.Predictor)
			}
			if got := strings.Join([]string{s.Transition, s.Active, s.Target}, " "); got != tt.model {
				t.Errorf("the model is %q, want %q", got, tt.model)
			}
			if queued := s.Queued.Is == serving.True; queued != (tt.seen.Waits != "" && !tt.seen.Service.Stopped) {
				t.Errorf("queued is %+v", s.Queued)
			}
		})
	}
}

func TestFaultOf(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server serving.Server
		says   string // "" stands for no fault
	}{
		{
			"an h5 file where TensorFlow Serving needs a SavedModel",
			serving.Server{Type: "tensorflow-serving", Lines: []string{"2026-01-02 03:04:05.678901: W tensorflow_serving/sources/storage_path/file_system_storage_path_source.cc:268] No versions of servable mnist-model found under base path /mnt/models. Did you forget to name your leaf directory as a number (eg. '/1/')?"}},
			"finds no model in pvc://v/: it reads a SavedModel in a folder that is a number",
		},
		{"the same words of another server", serving.Server{Type: "sklearnserver", Lines: []string{"No versions of servable x found under base path"}}, ""},
		{"memory that is too small", serving.Server{Type: "huggingfaceserver", Lines: []string{"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.", "exit"}}, "does not fit into the memory"},
		{"a driver that is too old", serving.Server{Lines: []string{"RuntimeError: CUDA driver version is insufficient for CUDA runtime version"}}, "driver is too old"},
		{"a download that fails, with the server's words", serving.Server{Fetch: "INFO: trying\nbotocore.exceptions.NoCredentialsError: Unable to locate credentials\n"}, "cannot be downloaded from pvc://v/: botocore.exceptions.NoCredentialsError: Unable to locate credentials"},
		{"nothing wrong", serving.Server{Type: "tensorflow-serving", Lines: []string{"Exporting HTTP/REST API at:localhost:8080 ..."}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.server.Model = "pvc://v/"
			fault := serving.FaultOf(&tt.server)
			if (fault == nil) != (tt.says == "") || fault != nil && !strings.Contains(fault.Message, tt.says) {
				t.Errorf("it says %+v, want %q", fault, tt.says)
			}
		})
	}
}
