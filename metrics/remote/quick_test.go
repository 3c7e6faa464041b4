package remote

import (
	"bytes"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// answers are some as Prometheus writes them.
var answers = []string{
	`{"status":"success","data":{"resultType":"vector","result":[]}}`,
	`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1795000005,"1"]}]}}` + "\n",
	`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"__name__":"up","job":"a b","pod":"ü"},"value":[1795000005.125,"-1.5e+300"]},{"metric":{"__name__":"up"},"value":[1795000005.1,"NaN"]}]}}`,
	`{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"1"},"values":[[1795000005,"+Inf"],[1795000020,"+Inf"],[1795000035,"0"]]},{"metric":{"a":"2"},"values":[[1795000005.25,"7"]]},{"metric":{"a":"3"},"values":[[1795000005,"7"],[1795000020,"7"]]}]}}`,
}

func asJSON(raw []byte) ([]series, error) {
	data, err := decode[result](raw)
	return data.Result, err
}

var equal = cmp.Options{cmpopts.EquateEmpty(), cmpopts.EquateNaNs()}

func TestAnswersOfPrometheusAreReadQuicklyAndRight(t *testing.T) {
	for _, text := range answers {
		got, ok := quick([]byte(text))
		if !ok {
			t.Errorf("%s is not read", text)
		}
		want, err := asJSON([]byte(text))
		if diff := cmp.Diff(want, got, equal); err != nil || diff != "" {
			t.Errorf("%s: %v, -want +got\n%s", text, err, diff)
		}
	}
	var at int64
	for text, want := range map[string]int64{"1": 1000, "1.5": 1500, "1795000005.007": 1795000005007, "12.34": 12340} {
		if !millis([]byte(text), &at) || at != want {
			t.Errorf("%s s are %d ms; want %d", text, at, want)
		}
	}
}

// TestOtherAnswersAreLeftToJSON changes each byte of the answers, and cuts them off: what is read quickly is what JSON gives.
func TestOtherAnswersAreLeftToJSON(t *testing.T) {
	for _, text := range []string{
		``, `{}`, `{"status":"error","error":"no"}`, `{"data":{"resultType":"vector","result":[]},"status":"success"}`, `{"status":"success","data":{"resultType":"scalar","result":[1795000005,"1"]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"\""},"value":[1,"1"]}]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"1"},"histogram":[1,{}]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["a"]}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.2345,"1"]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[01,"1"]}]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1.,"1"]}]}}`,
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1e3,"1"]}]}}`, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[99999999999999999999,"1"]}]}}`,
	} {
		if got, ok := quick([]byte(text)); ok {
			t.Errorf("%s is read as %v", text, got)
		}
	}
	for _, text := range answers {
		for i := range text {
			if got, ok := quick([]byte(text[:i])); ok && i != len(text)-1 { // but for the end of a line
				t.Errorf("%s is read as %v", text[:i], got)
			}
			for _, c := range []byte("\"\\{}[],:0123456789.eE+-naN \n") {
				raw := []byte(text)
				raw[i] = c
				got, ok := quick(raw)
				if !ok || bytes.IndexByte(raw[:len(raw)-1], '\n') >= 0 { // JSON has no ends of lines in texts; a series with one has no labels
					continue
				}
				want, err := asJSON(raw)
				if diff := cmp.Diff(want, got, equal); err != nil || diff != "" {
					t.Errorf("%s: %v, -want +got\n%s", raw, err, diff)
				}
			}
		}
	}
	if _, ok := quick([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"` + "1e999" + `"]}]}}`)); ok {
		t.Error(math.Inf(1), "is read of a number that is too large")
	}
}
