package runs_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/kube/runs"
)

func TestEstimatesAreRememberedAsTheyWereWritten(t *testing.T) {
	o := &forecast.Outcomes{}
	submit := func(id string, i int, estimated time.Duration) {
		o.Submitted(forecast.Submission{ID: id, At: noon, Outcome: forecast.Outcome{Queue: fmt.Sprint("team-", i%40), GPUs: float64(i % 9), Estimated: estimated, By: forecast.Never}})
	}
	for i := range 2 * forecast.OutcomesKept {
		id, estimated := fmt.Sprint("started-", i), time.Duration(i)*time.Second
		if i%7 == 0 {
			estimated = forecast.Never
		}
		submit(id, i, estimated)
		o.Started(id, noon.Add(time.Duration(i)*time.Minute))
		submit("default/waits-with-a-name-of-the-usual-length-"+id, i, time.Hour)
	}
	text, err := runs.EncodeStarts(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 100_000 {
		t.Errorf("they have %d bytes, more than a tenth of what a ConfigMap may have", len(text))
	}
	again, err := runs.DecodeStarts(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(o.List(), again.List()); diff != "" {
		t.Errorf("started -want +got\n%s", diff)
	}
	if diff := cmp.Diff(o.Waiting(), again.Waiting()); diff != "" {
		t.Errorf("waiting -want +got\n%s", diff)
	}
	if none, err := runs.DecodeStarts(nil); err != nil || len(none.List()) != 0 {
		t.Errorf("of nothing: %v", err)
	}
}

func TestEstimatesThatAreDamagedAreNotRead(t *testing.T) {
	packed := func(text string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write([]byte(text))
		_ = w.Close()
		return b.Bytes()
	}
	good := packed(`{"format":1,"queues":["a"],"started":[[0,1,60,90,30]],"waiting":[{"id":"x","at":1,"what":[0,1,-1,-1,0]}]}`)
	if _, err := runs.DecodeStarts(good); err != nil {
		t.Fatal(err)
	}
	cut := bytes.Clone(good)
	cut[len(cut)-5] ^= 1
	for name, text := range map[string][]byte{
		"not packed": []byte("{}"), "half of it": good[:len(good)/2], "a changed byte": cut, "another format": packed(`{"format":2}`), "no JSON": packed("{"),
		"a queue that is not there": packed(`{"format":1,"started":[[0,1,60,90,30]]}`), "a queue below none": packed(`{"format":1,"queues":["a"],"started":[[-1,1,60,90,30]]}`),
		"a wait below none": packed(`{"format":1,"queues":["a"],"started":[[0,1,60,90,-30]]}`), "a wait of ages": packed(`{"format":1,"queues":["a"],"started":[[0,1,1e30,90,30]]}`),
		"a job without an ID": packed(`{"format":1,"queues":["a"],"waiting":[{"what":[0,1,60,90,0]}]}`),
	} {
		if _, err := runs.DecodeStarts(text); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}
