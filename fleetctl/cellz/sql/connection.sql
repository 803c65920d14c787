-- What each connection to a cell has for itself; nothing of it is in the file.
-- One event as one statement: its row, and the new end of the log. Four statements cost half as much again.
CREATE TEMP VIEW append_one AS SELECT sequence, id, turn_id, event_type, payload, created_at FROM main.events;
CREATE TEMP TRIGGER append_one_row INSTEAD OF INSERT ON append_one
BEGIN
    INSERT INTO events (sequence, id, turn_id, event_type, payload, created_at)
        VALUES (new.sequence, new.id, new.turn_id, new.event_type, new.payload, new.created_at);
    UPDATE cell_meta SET event_sequence = new.sequence, updated_at = new.created_at;
END;
