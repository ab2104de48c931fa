-- Operators' way out of dead letters: the command that drops one, and their list by state.

-- +goose Up
ALTER TABLE commands DROP CONSTRAINT commands_kind_check;
ALTER TABLE commands ADD CONSTRAINT commands_kind_check CHECK (kind IN ('cancel', 'adjust', 'load_stock', 'void', 'drop'));
CREATE INDEX dead_letters_state ON dead_letters (state, id);

-- +goose Down
DROP INDEX dead_letters_state;
ALTER TABLE commands DROP CONSTRAINT commands_kind_check;
DELETE FROM commands WHERE kind = 'drop';
ALTER TABLE commands ADD CONSTRAINT commands_kind_check CHECK (kind IN ('cancel', 'adjust', 'load_stock', 'void'));
