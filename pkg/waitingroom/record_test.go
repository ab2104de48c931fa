package waitingroom

import "testing"

// What is read as a record is written again as the same bytes; everything else is refused, never misread.
func FuzzDecodeWho(f *testing.F) {
	for _, seed := range []string{
		"active|8796093022209||1700000000123", "ordering|9007199254740991|01890a5d-ac96-774b-bcce-b302099a8057|1", "left|1||0",
		"", "|||", "waiting|1||1", "left|0||1", "left|01||1", "left|1||-1", "ordered|1|x|1", "left|1||1|", "left|1e3||1", "lapsed|9007199254740992||1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := decodeWho(text)
		if err != nil {
			return
		}
		again, err := decodeWho(r.encode())
		if err != nil || again != r {
			t.Fatalf("%q is read as %+v and then as %+v, %v", text, r, again, err)
		}
	})
}
